// orrery schema NAME: the JSON Schema of a file format.
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"

namespace orrery::cli {

namespace {

class Schema : public Verb {
 public:
  void define(Arguments arguments) override { arguments.positional("NAME", name_, "a format, as scenario or model; their names unless given", false); }

  int run(Streams& s) override {
    if (name_.empty()) {
      std::string names;
      for (const std::string& n : document::schema_names()) names += n + "\n";
      return print(s, names);
    }
    const auto text = document::schema(name_);
    if (!text) return refused(s, text.error());
    return print(s, text->ends_with('\n') ? *text : *text + "\n");
  }

 private:
  std::string name_;
};

}  // namespace

std::unique_ptr<Verb> make_schema() { return std::make_unique<Schema>(); }

}  // namespace orrery::cli
