#pragma once
// Small documents for tests, written out in full so that they need no catalogue.
#include <string>

namespace orrery::test {

inline const char* const kGpu = R"({"schema": "orrery/gpu/1", "name": "tiny", "sm_count": 100, "clock_mhz": 1500, "memory_capacity_gib": 80,
  "memory_bandwidth_gb_per_s": 2000, "tdp_w": 500, "scale_up_gb_per_s": 300, "pcie_gb_per_s": 50, "peak_tflops": {"bf16": 500, "fp32": 50}})";

inline std::string node() {
  return std::string(R"({"schema": "orrery/node/1", "gpus": 8, "scale_up_kind": "nvswitch", "nics": 8, "nic_gbit_per_s": 400, "gpu": )") + kGpu + "}";
}

inline const char* const kModel = R"({"schema": "orrery/model/1", "name": "m", "layers": 4, "hidden": 1024, "ffn_hidden": 4096, "gated_mlp": true,
  "activation": "silu", "heads": 16, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary"})";

/// A whole scenario; `more` is added as further top-level members (", \"name\": …").
inline std::string scenario(const std::string& more = "") {
  return R"({"schema": "orrery/scenario/1", "model": )" + std::string(kModel) + R"(, "training": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1},
  "cluster": {"node": )" + node() + R"(, "nodes": 2}, "stack": {"schema": "orrery/stack/1"})" + more + "}";
}

}  // namespace orrery::test
