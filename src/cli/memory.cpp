// orrery memory: the memory part of a simulation.
#include "command.hpp"
#include "common.hpp"

namespace orrery::cli {

namespace {

class Memory : public Verb {
 public:
  void define(Arguments arguments) override {
    scenario_.define(arguments);
    output_.define(arguments);
  }

  int run(Streams& s) override {
    const auto overrides = scenario_.overrides();
    if (!overrides) return refused(s, overrides.error());
    const auto document = document::load_scenario(scenario_.scenario, *overrides);
    if (!document) return refused(s, document.error());
    const auto prediction = search::predict(*document, scenario_.options());
    if (!prediction) return refused(s, prediction.error());
    print_warnings(s, output_, prediction->summary.warnings, document->file);
    const report::Subject shown = subject(*prediction);
    if (const int code = deliver(s, output_, report::json(shown), report::memory_table(shown)); code != kSuccess) return code;
    return verdict(s, *prediction, scenario_.strict);
  }

 private:
  ScenarioOptions scenario_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_memory() { return std::make_unique<Memory>(); }

}  // namespace orrery::cli
