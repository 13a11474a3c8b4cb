#pragma once
// The command line: parse, call, print, choose the exit code.
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::cli {

/// Exit codes (design section 6).
inline constexpr int kSuccess = 0;
inline constexpr int kNo = 1;            ///< the answer is "no"; the output is complete
inline constexpr int kBadInput = 2;      ///< nothing was written
inline constexpr int kInternalError = 3;
inline constexpr int kInterrupted = 130;

/// Where a command prints: results to out, everything else to err.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool bold = false;  ///< out is a terminal that may be styled
};

/// Runs `orrery ARGUMENTS…` (without the program's name) and returns the exit code.
int run(const std::vector<std::string>& arguments, Streams& streams);

/// A row of the commands table, as help and tests see it.
struct CommandName {
  std::string_view name, about;
  bool built = false;
};
std::vector<CommandName> command_names();

}  // namespace orrery::cli
