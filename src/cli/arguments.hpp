#pragma once
// What a verb may ask of the command line, without the parsing library: that costs seconds per file, so only arguments.cpp sees it.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::cli {

/// A command's (or subcommand's) arguments. Values are bound by reference and filled when the command line has been parsed.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(&app) {}

  void positional(const std::string& name, std::string& value, const std::string& about, bool required = true);
  /// All that stand where no option is, one at least.
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& about);
  /// At most once, and not empty; so are numbers and checked texts.
  void text(const std::string& name, std::string& value, const std::string& about, const std::string& type = "TEXT");
  /// One value each time it is given; all are kept, in order.
  void repeated(const std::string& name, std::vector<std::string>& values, const std::string& about, const std::string& type = "TEXT");
  void number(const std::string& name, std::int64_t& value, std::int64_t least, std::int64_t most, const std::string& about);
  void number(const std::string& name, std::optional<std::int64_t>& value, std::int64_t least, std::int64_t most, const std::string& about);
  /// Sets value to `given` where the flag is given.
  void flag(const std::string& name, bool& value, const std::string& about, bool given = true);
  /// A text that `refusal` may refuse: what it returns is the reason, "" where there is none.
  void checked(const std::string& name, std::string& value, const std::string& about, std::function<std::string(const std::string&)> refusal);
  /// Known to the command line's contract and not built: refused where it is used.
  void not_built(const std::string& name);

  /// A subcommand; one of them must be given. chosen becomes true for that one.
  Arguments subcommand(const std::string& name, const std::string& about, bool& chosen);
  /// A subcommand that may stand instead of the rest.
  Arguments alternative(const std::string& name, const std::string& about, bool& chosen);

  /// Names of the options given, in the order given, once each time.
  [[nodiscard]] std::vector<std::string> order() const;

 private:
  CLI::App* app_;
};

}  // namespace orrery::cli
