#include <algorithm>
#include <fmt/format.h>
#include <ostream>

#include "command.hpp"
#include "common.hpp"
#include "orrery/base/text.hpp"
#include "orrery/report/report.hpp"
#include "parse.hpp"

namespace orrery::cli {

namespace {

const Command* find(std::string_view name) {
  const auto all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

constexpr std::size_t kColumns = 80;

std::string help() {
  std::string text = "Predicts how fast a training job runs on a GPU cluster.\n\nUsage: orrery COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& c : commands())
    if (c.make != nullptr) text += fmt::format("  {:<12}{}\n", c.name, c.about);
  text += "\nKnown and not built yet:\n ";
  std::size_t column = 1;
  for (const Command& c : commands()) {
    if (c.make != nullptr) continue;
    if (column + 1 + c.name.size() > kColumns) {
      text += "\n ";
      column = 1;
    }
    text += fmt::format(" {}", c.name);
    column += 1 + c.name.size();
  }
  return text + "\n\nExample: orrery simulate job.json\n\norrery COMMAND --help says more; orrery --version prints the version.\n";
}

int unknown_command(std::string_view name, Streams& s) {
  std::vector<std::string> names;
  for (const Command& c : commands()) names.emplace_back(c.name);
  const std::string hint = did_you_mean(name, names);
  return usage_error(s, fmt::format("unknown command \"{}\"{}", name, hint.empty() ? "; orrery --help lists them" : hint));
}

}  // namespace

int run(const std::vector<std::string>& arguments, Streams& s) {
  if (arguments.empty()) return usage_error(s, "a command is missing; orrery --help lists them");
  const std::string& first = arguments[0];
  if (first == "--version") return print(s, fmt::format("orrery {}\n", report::version()));
  if (first == "--help" || first == "-h" || first == "help") return print(s, help());
  const Command* command = find(first);
  if (command == nullptr) return unknown_command(first, s);
  if (command->make == nullptr) return usage_error(s, fmt::format("{} is not built yet", command->name));

  const std::unique_ptr<Verb> verb = command->make();
  int code = kSuccess;
  const Parsed parsed = parse(*command, *verb, {arguments.begin() + 1, arguments.end()}, [&] { code = verb->run(s); });
  if (parsed.kind == Parsed::Kind::kHelp) return print(s, parsed.text);
  if (parsed.kind == Parsed::Kind::kError) return usage_error(s, fmt::format("{}: {}", command->name, parsed.text));
  return code;
}

}  // namespace orrery::cli
