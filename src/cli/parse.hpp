#pragma once
// Arguments of one command, parsed.
#include <string>
#include <vector>

#include "command.hpp"

namespace orrery::cli {

struct Parsed {
  enum class Kind { kRun, kHelp, kError } kind = Kind::kRun;
  std::string text;  ///< help or what is wrong
};
/// Defines the verb's arguments, parses `arguments` (without the command's name) into them, and calls then() where they are sound, while
/// the parser still knows their order.
Parsed parse(const Command& command, Verb& verb, const std::vector<std::string>& arguments, const std::function<void()>& then);

}  // namespace orrery::cli
