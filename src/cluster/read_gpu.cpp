// orrery/gpu/1 to a value.
#include "cluster/members.hpp"
#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {

Result<Gpu> read_gpu(const document::Value& doc, const std::string& file, const std::string& pointer) {
  if (!doc.is_object()) return fail(file, pointer, "no GPU is given; name one of the catalogue");
  Gpu g;
  g.name = text(doc, "name");
  g.vendor = text(doc, "vendor");
  g.architecture = text(doc, "architecture");
  g.sm_count = integer(doc, "sm_count");
  g.clock_mhz = number(doc, "clock_mhz");
  g.memory_capacity = whole_bytes(number(doc, "memory_capacity_gib") * static_cast<double>(kGiB));
  g.memory_bandwidth = gb_per_s(number(doc, "memory_bandwidth_gb_per_s"));
  g.l2 = whole_bytes(number(doc, "l2_mib") * static_cast<double>(kMiB));
  g.tdp_w = number(doc, "tdp_w");
  g.power_limit_w = number(doc, "power_limit_w", g.tdp_w);
  if (!doc.at("idle_w").is_null()) g.idle_w = doc.at("idle_w").as_double();
  g.scale_up = gb_per_s(number(doc, "scale_up_gb_per_s"));
  g.pcie = gb_per_s(number(doc, "pcie_gb_per_s"));
  g.structured_sparsity = flag(doc, "structured_sparsity");
  const document::Value& peaks = doc.at("peak_tflops");
  const auto peak = [&peaks](std::string_view dtype) -> std::optional<FlopsPerSecond> {
    const document::Value& v = peaks.at(dtype);
    if (v.is_null()) return std::nullopt;
    return tflops(v.as_double());
  };
  g.peak = {peak("fp32"), peak("tf32"), peak("fp16"), peak("bf16"), peak("fp8"), peak("fp6"), peak("fp4"), peak("int8")};
  g.default_origin = texts(doc, "unconfirmed");
  return g;
}

}  // namespace orrery::cluster
