// orrery/gpu/1: one device, from its data sheet (design 5.3). Peaks are dense; bandwidths are per direction.
#include "document/description.hpp"

namespace orrery::document {

const Type& gpu_type() {
  static const auto peak = [](const char* name) { return member(name, positive(), "dense TFLOP/s with matrix units; null: the device has none"); };
  static const Type type = object(document_members("gpu", true, with_sources({
      member("name", text(), "catalogue name").otherwise(""),
      member("title", text(), "the maker's name").otherwise(""),
      member("vendor", text(), "maker").otherwise(""),
      member("architecture", text(), "generation, as the maker calls it: Hopper, Ampere, …").otherwise(""),
      member("compute_unit", text(), "what sm_count counts: SM, CU, core, …").otherwise("SM"),
      member("sm_count", integer(1, 1 << 20), "compute units").required(),
      member("clock_mhz", positive(1e6), "clock of the peak").required(),
      member("memory_capacity_gib", positive(1e9), "memory that a process can use").required(),
      member("memory_bandwidth_gb_per_s", positive(1e9), "peak memory bandwidth").required(),
      member("l2_mib", positive(1e9), "last cache before memory"),
      member("tdp_w", positive(1e6), "power the part is rated for"),
      member("power_limit_w", positive(1e6), "power limit in force").otherwise_text("tdp_w"),
      member("idle_w", number(0, 1e6), "power without work"),
      member("structured_sparsity", boolean(), "matrix units skip half of a 2:4 sparse operand").otherwise(false),
      member("scale_up_gb_per_s", number(0, 1e9), "NVLink, Infinity Fabric, …: all links together; 0: none").otherwise(0),
      member("pcie_gb_per_s", number(0, 1e9), "link to the host"),
      member("peak_tflops", object({peak("fp32"), peak("tf32"), peak("fp16"), peak("bf16"), peak("fp8"), peak("fp6"), peak("fp4"), peak("int8")}), "peak rates").required(),
  })));
  return type;
}

}  // namespace orrery::document
