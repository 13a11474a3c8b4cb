#pragma once
// What a verb is: options to define, and something to do.
#include <memory>
#include <span>
#include <string_view>

#include "arguments.hpp"
#include "orrery/cli/cli.hpp"

namespace orrery::cli {

class Verb {
 public:
  virtual ~Verb() = default;
  /// Adds arguments and options, bound to members of this.
  virtual void define(Arguments arguments) = 0;
  /// Called once after parsing; returns the exit code.
  virtual int run(Streams& streams) = 0;
};

struct Command {
  std::string_view name;
  std::string_view about;
  std::string_view example = "";  ///< a whole command line without the program's name
  std::unique_ptr<Verb> (*make)() = nullptr;  ///< null: known, not built yet
};
std::span<const Command> commands();

// One file per verb.
std::unique_ptr<Verb> make_simulate();
std::unique_ptr<Verb> make_whatif();
std::unique_ptr<Verb> make_sweep();
std::unique_ptr<Verb> make_memory();
std::unique_ptr<Verb> make_catalog();
std::unique_ptr<Verb> make_model();
std::unique_ptr<Verb> make_collective();
std::unique_ptr<Verb> make_calibrate();
std::unique_ptr<Verb> make_schema();
std::unique_ptr<Verb> make_import();
std::unique_ptr<Verb> make_doctor();

}  // namespace orrery::cli
