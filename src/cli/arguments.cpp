// The only file that includes CLI11.
#include "arguments.hpp"

#include <CLI/CLI.hpp>

#include "parse.hpp"

namespace orrery::cli {

void Arguments::positional(const std::string& name, std::string& value, const std::string& about, bool required) {
  app_->add_option(name, value, about)->required(required);
}

void Arguments::text(const std::string& name, std::string& value, const std::string& about, const std::string& type) {
  app_->add_option(name, value, about)->type_name(type);
}

void Arguments::repeated(const std::string& name, std::vector<std::string>& values, const std::string& about, const std::string& type) {
  app_->add_option(name, values, about)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name(type);
}

void Arguments::number(const std::string& name, std::int64_t& value, std::int64_t least, std::int64_t most, const std::string& about) {
  app_->add_option(name, value, about)->check(CLI::Range(least, most))->type_name("N");
}

void Arguments::number(const std::string& name, std::optional<std::int64_t>& value, const std::string& about) {
  app_->add_option_function<std::int64_t>(name, [&value](const std::int64_t& v) { value = v; }, about)->type_name("N");
}

void Arguments::flag(const std::string& name, bool& value, const std::string& about, bool given) {
  app_->add_flag_function(name, [&value, given](std::int64_t) { value = given; }, about);
}

void Arguments::checked(const std::string& name, std::string& value, const std::string& about, std::function<std::string(const std::string&)> refusal) {
  app_->add_option(name, value, about)->check(std::move(refusal));
}

void Arguments::not_built(const std::string& name) {
  app_->add_option_function<std::string>(name, [name](const std::string&) { throw CLI::ValidationError(name, "not built yet"); }, "not built yet")
      ->group("");  // not in the help
}

Arguments Arguments::subcommand(const std::string& name, const std::string& about, bool& chosen) {
  app_->require_subcommand(1);
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
  verb.define(Arguments(app));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // the parser takes the last one first
  } catch (const CLI::CallForHelp&) {
    CLI::App* shown = &app;
    for (CLI::App* sub : app.get_subcommands()) shown = sub;
    return {Parsed::Kind::kHelp, shown->help()};
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return {Parsed::Kind::kError, text};
  }
  then();
  return {};
}

}  // namespace orrery::cli
