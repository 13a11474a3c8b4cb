// The only file that includes CLI11. Values are taken as text and read here, so that what is wrong with one is said in our words.
#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <fmt/format.h>

#include "orrery/base/text.hpp"
#include "parse.hpp"

namespace orrery::cli {

namespace {

/// An option that is given at most once and holds something. take: keeps the text, or returns what is wrong with it.
CLI::Option* once(CLI::App& app, const std::string& name, const std::string& about, const std::string& type, std::function<std::string(const std::string&)> take) {
  const auto all = [name, take = std::move(take)](const std::vector<std::string>& values) {
    if (values[0].empty()) throw CLI::ValidationError(name, "is empty");
    if (const std::string problem = take(values[0]); !problem.empty()) throw CLI::ValidationError(name, problem);
  };
  return app.add_option_function<std::vector<std::string>>(name, all, about)->expected(1)->type_name(type);
}

std::string read_number(const std::string& text, std::int64_t least, std::int64_t most, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return "";
  return fmt::format("{} is no whole number from {} to {}", text, least, most);
}

/// Deepest subcommand that the command line names.
CLI::App& chosen(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

/// The command before what is wrong: "catalog show: …".
std::string path(const CLI::App& app, const CLI::App& root) { return &app == &root ? "" : app.get_name() + ": "; }

std::string not_expected(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining(true);
  const auto option = std::find_if(extra.begin(), extra.end(), [](const std::string& e) { return e.starts_with("-") && e != "-"; });
  if (option == extra.end()) return fmt::format("\"{}\" is one argument too many", extra.empty() ? "" : extra.front());
  std::vector<std::string> known;
  for (const CLI::Option* o : app.get_options())
    if (!o->get_group().empty() && !o->get_positional()) known.push_back("--" + o->get_lnames().front());
  return fmt::format("unknown option \"{}\"{}", *option, did_you_mean(*option, known));
}

/// What the parser complains of, in our words where its own are not.
std::string complaint(CLI::App& root, const CLI::ParseError& e) {
  CLI::App& app = chosen(root);
  std::string text = e.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    text = not_expected(app);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr) {
    const bool missing = text.find("At Most") == std::string::npos;
    text = text.substr(0, text.find(':')) + (missing ? ": a value is missing" : ": given more than once");
  } else if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr && !app.get_subcommands([](const CLI::App*) { return true; }).empty()) {
    text = "one of these is required:";
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) text += " " + sub->get_name();
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return path(app, root) + text;
}

}  // namespace

void Arguments::positional(const std::string& name, std::string& value, const std::string& about, bool required) {
  app_->add_option(name, value, about)->required(required)->type_name("");
}

void Arguments::positionals(const std::string& name, std::vector<std::string>& values, const std::string& about) {
  app_->add_option(name, values, about)->required()->type_name("");
}

void Arguments::text(const std::string& name, std::string& value, const std::string& about, const std::string& type) {
  once(*app_, name, about, type, [&value](const std::string& v) {
    value = v;
    return std::string();
  });
}

void Arguments::repeated(const std::string& name, std::vector<std::string>& values, const std::string& about, const std::string& type) {
  app_->add_option(name, values, about)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name(type);
}

void Arguments::number(const std::string& name, std::int64_t& value, std::int64_t least, std::int64_t most, const std::string& about) {
  once(*app_, name, about, "N", [&value, least, most](const std::string& v) { return read_number(v, least, most, value); });
}

void Arguments::number(const std::string& name, std::optional<std::int64_t>& value, std::int64_t least, std::int64_t most, const std::string& about) {
  once(*app_, name, about, "N", [&value, least, most](const std::string& v) { return read_number(v, least, most, value.emplace()); });
}

void Arguments::flag(const std::string& name, bool& value, const std::string& about, bool given) {
  app_->add_flag_function(name, [&value, given](std::int64_t) { value = given; }, about)->disable_flag_override();
}

void Arguments::checked(const std::string& name, std::string& value, const std::string& about, std::function<std::string(const std::string&)> refusal) {
  once(*app_, name, about, "TEXT", [&value, refusal = std::move(refusal)](const std::string& v) {
    value = v;
    return refusal(v);
  });
}

void Arguments::not_built(const std::string& name) {
  app_->add_option_function<std::string>(name, [name](const std::string&) { throw CLI::ValidationError(name, "not built yet"); }, "not built yet")
      ->group("");  // not in the help
}

Arguments Arguments::subcommand(const std::string& name, const std::string& about, bool& chosen) {
  app_->require_subcommand(1);
  return alternative(name, about, chosen);
}

Arguments Arguments::alternative(const std::string& name, const std::string& about, bool& chosen) {
  CLI::App* sub = app_->add_subcommand(name, about);
  sub->parse_complete_callback([&chosen] { chosen = true; });
  return Arguments(*sub);
}

std::vector<std::string> Arguments::order() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->parse_order()) names.push_back(option->get_name());
  return names;
}

Parsed parse(const Command& command, Verb& verb, const std::vector<std::string>& arguments, const std::function<void()>& then) {
  CLI::App app{std::string(command.about), "orrery " + std::string(command.name)};
  app.set_help_flag("-h,--help", "print this help");
  app.get_formatter()->column_width(26);
  verb.define(Arguments(app));
  app.footer("Example: orrery " + std::string(command.example));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // the parser takes the last one first
  } catch (const CLI::CallForHelp&) {
    std::string text = app.help();  // of the subcommand, where one is given
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);  // what a hidden group leaves
    while (text.ends_with("\n\n")) text.pop_back();
    return {Parsed::Kind::kHelp, text};
  } catch (const CLI::ParseError& e) {
    return {Parsed::Kind::kError, complaint(app, e)};
  }
  then();
  return {};
}

}  // namespace orrery::cli
