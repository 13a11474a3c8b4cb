#pragma once
// Whole trips down the road for tests: scenario text and overrides to a prediction and its report.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "orrery/report/report.hpp"
#include "orrery/search/search.hpp"

namespace orrery::test {

using Overrides = std::vector<document::Override>;

inline std::string problems(const Diagnostics& d) {
  std::string text;
  for (const Diagnostic& x : d) text += to_string(x) + "\n";
  return text;
}

inline Result<search::Prediction> try_predict(const std::string& text, const Overrides& overrides, bool fold = true) {
  auto scenario = document::load_scenario_text(text, "job.json", ORRERY_SOURCE_DIR, overrides);
  if (!scenario) return fail(scenario.error());
  simulate::Options options;
  options.fold = fold;
  return search::predict(*scenario, options);
}

inline search::Prediction predict(const std::string& text, const Overrides& overrides = {}, bool fold = true) {
  auto p = try_predict(text, overrides, fold);
  INFO((p ? std::string() : problems(p.error())));
  REQUIRE(p.has_value());
  return std::move(*p);
}

inline document::Value report_of(const search::Prediction& p) {
  return report::json({p.summary, p.scenario.value, p.scenario.defaults_from});
}
/// The report as text, without what folding may change.
inline std::string bytes_of(const search::Prediction& p) {
  document::Value r = report_of(p);
  r.erase("engine");
  return document::dump(r);
}

/// Where two texts part, with a little of both; empty where they are equal.
inline std::string first_difference(const std::string& a, const std::string& b) {
  if (a == b) return {};
  const auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::size_t from = at > 200 ? at - 200 : 0;
  return "one: " + a.substr(from, 300) + "\nother: " + b.substr(from, 300);
}

/// A shipped scenario, as text.
inline std::string shipped(const std::string& name) {
  auto text = document::read_file(std::string(ORRERY_SOURCE_DIR) + "/configs/scenarios/" + name + ".json");
  REQUIRE(text.has_value());
  return *text;
}

/// A small dense job that fits one or two nodes; everything else by override.
inline const char* const kSmallJob = R"({
  "schema": "orrery/scenario/1",
  "model": {"schema": "orrery/model/1", "name": "small", "family": "transformer", "layers": 8, "hidden": 1024, "ffn_hidden": 4096, "gated_mlp": true,
            "activation": "silu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary"},
  "training": {"sequence_length": 2048, "global_batch": 32, "micro_batch": 1},
  "parallelism": {},
  "cluster": {"node": "dgx-h100", "nodes": 1, "fabric": "infiniband-ndr-rail"}
})";

}  // namespace orrery::test
