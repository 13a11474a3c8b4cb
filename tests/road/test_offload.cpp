// Activations in host memory down the whole road: what travels, what the device keeps, when it shows in the step.
#include <algorithm>
#include <cmath>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// A job of eight wide layers on one rank of each node's GPUs.
Overrides job(Overrides more) {
  Overrides all = {{"model.layers", "8"}, {"model.hidden", "4096"}, {"model.ffn_hidden", "14336"}, {"model.heads", "32"}, {"model.head_dim", "128"},
                   {"training.sequence_length", "4096"}, {"training.global_batch", "16"}, {"parallelism.zero", "1"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

double bytes_of(const search::Prediction& p, workload::Axis axis) {
  double bytes = 0;
  for (const auto& row : p.summary.collectives) {
    if (row.axis == axis) bytes += static_cast<double>(row.bytes) * static_cast<double>(row.count);
  }
  return bytes;
}

std::string refusal(const Overrides& overrides) {
  const auto p = try_predict(kSmallJob, overrides);
  if (p) return "";
  REQUIRE(p.error().size() == 1);
  return to_string(p.error().front());
}

}  // namespace

TEST_CASE("activations out and in are the same bytes, and allocated memory falls by all that stands in host memory but two layers") {
  const search::Prediction here = predict(kSmallJob, job({}));
  for (const char* share : {"0.5", "1"}) {
    CAPTURE(share);
    const search::Prediction p = predict(kSmallJob, job({{"training.offload.activations", share}}));
    const double out = bytes_of(p, workload::Axis::kToHost), in = bytes_of(p, workload::Axis::kFromHost);
    CHECK(out > 0);
    CHECK(out == in);
    REQUIRE(p.summary.memory.host_bytes);
    const double standing = static_cast<double>(*p.summary.memory.host_bytes);
    const double freed = static_cast<double>(here.summary.memory.allocated_bytes - p.summary.memory.allocated_bytes);
    // Of the seven layers that leave, one is on its way and one has come back when the last layer stands at its peak.
    CHECK(freed <= standing);
    CHECK(freed >= standing * 5 / 7);
  }
}

TEST_CASE("activations cost nothing where the link carries them under the layers, and their bytes over its rate where it does not") {
  const double here = predict(kSmallJob, job({})).summary.step_s;
  const auto at = [](const char* pcie) { return predict(kSmallJob, job({{"training.offload.activations", "1"}, {"cluster.node.pcie_gb_per_s", pcie}, {"cluster.node.pcie_uplink_gb_per_s", pcie}, {"cluster.node.pcie_switches", "8"}})); };
  const search::Prediction slow = at("4");
  const double out = bytes_of(slow, workload::Axis::kToHost) / static_cast<double>(slow.summary.ranks);
  CHECK(slow.summary.step_s >= 2 * out / (4e9 * 0.88));
  CHECK(slow.summary.breakdown.exposed_comm_s[static_cast<std::size_t>(metrics::ExposedAxis::kHost)] > 0.5 * slow.summary.step_s);
  // A coherent link of 450 GB/s carries a layer's 0.7 GB in less time than the layer takes.
  const search::Prediction fast = predict(kSmallJob, job({{"training.offload.activations", "1"}, {"cluster.node.c2c_gb_per_s", "450"}, {"cluster.node.numa_domains", "8"}, {"cluster.node.numa_gb_per_s", "22"}}));
  CHECK(fast.summary.step_s < 1.03 * here);
  CHECK(fast.summary.step_s >= here);
}

TEST_CASE("activations in host memory fold: skewed experts, pipelines and exchanges under passes are played as unfolded, to the picosecond") {
  const char* const kMoe = R"({"schema": "orrery/model/1", "name": "small experts", "family": "transformer", "layers": 8, "hidden": 1024, "ffn_hidden": 2048, "gated_mlp": true, "activation": "silu",
    "heads": 16, "kv_heads": 4, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary", "mtp_layers": 1,
    "moe": {"experts": 8, "experts_per_token": 2, "expert_ffn": 1024, "load": {"histogram": [8, 1, 1, 1, 1, 1, 1, 1]}}})";
  const std::vector<Overrides> jobs = {
      job({{"parallelism.pp", "2"}, {"cluster.nodes", "2"}}),
      {{"model", kMoe}, {"parallelism.ep", "4"}, {"training.global_batch", "64"}},
      {{"model", kMoe}, {"parallelism.ep", "2"}, {"parallelism.pp", "2"}, {"parallelism.schedule", "zb_h1"}, {"training.global_batch", "64"}},
      {{"model", kMoe}, {"parallelism.ep", "2"}, {"parallelism.pp", "2"}, {"parallelism.vp", "2"}, {"parallelism.overlap.ep", "true"}, {"training.global_batch", "64"}},
      {{"model", kMoe}, {"parallelism.cp", "2"}, {"parallelism.cp_method", "ring_naive"}, {"training.recompute", "full"}, {"training.global_batch", "64"}}};
  for (Overrides each : jobs) {
    each.emplace_back("training.offload.activations", "0.75");
    const search::Prediction folded = predict(kSmallJob, each), full = predict(kSmallJob, each, false);
    CHECK(bytes_of(folded, workload::Axis::kToHost) > 0);
    CHECK(folded.summary.step_ps == full.summary.step_ps);
    CHECK(folded.summary.rank_classes < full.summary.rank_classes);
    CHECK(folded.summary.memory.host_bytes == full.summary.memory.host_bytes);
  }
}

TEST_CASE("what drives read and write all GPUs of a node share, and what passes them counts on the drives and not in host memory") {
  const Overrides nvme = {{"training.offload.activations", "1"}, {"training.offload.activations_device", "nvme"}, {"cluster.node.nvme_read_gb_per_s", "40"}, {"cluster.node.nvme_write_gb_per_s", "16"}};
  const search::Prediction host = predict(kSmallJob, job({{"training.offload.activations", "1"}})), p = predict(kSmallJob, job(nvme));
  double written = 0, read = 0;
  for (const auto& row : p.summary.collectives) {
    if (row.axis == workload::Axis::kToDrives) written = std::max(written, row.algbw_gb_per_s);
    if (row.axis == workload::Axis::kFromDrives) read = std::max(read, row.algbw_gb_per_s);
  }
  CHECK(written == Approx(16.0 / 8).epsilon(0.03));
  // Two GPUs share an uplink of 55 GB/s: the drives are slower than that for all eight.
  CHECK(read == Approx(40.0 / 8).epsilon(0.03));
  CHECK(p.summary.memory.drive_bytes == host.summary.memory.host_bytes);
  CHECK_FALSE(p.summary.memory.host_bytes);
  CHECK(p.summary.memory.allocated_bytes == host.summary.memory.allocated_bytes);
  CHECK(p.summary.step_s > host.summary.step_s);
  const search::Prediction full = predict(kSmallJob, job(nvme), false);
  CHECK(full.summary.step_ps == p.summary.step_ps);
}

TEST_CASE("an optimizer on drives: 12 bytes a parameter in, the host's update, 12 out, one after the other") {
  const Overrides nvme = {{"training.offload.optimizer", "1"}, {"training.offload.optimizer_device", "nvme"}, {"cluster.node.nvme_read_gb_per_s", "20"}, {"cluster.node.nvme_write_gb_per_s", "10"}, {"parallelism.zero", "1"}};
  const search::Prediction p = predict(kSmallJob, nvme), host = predict(kSmallJob, {{"training.offload.optimizer", "1"}, {"parallelism.zero", "1"}});
  const double updated = std::ceil(static_cast<double>(p.summary.counts.parameters) / 8);
  double in = 0, out = 0;
  for (const auto& row : p.summary.collectives) {
    if (row.axis == workload::Axis::kSwapIn) in = row.time_s;
    if (row.axis == workload::Axis::kSwapOut) out = row.time_s;
  }
  CHECK(in == Approx(12 * updated / (20e9 / 8)).epsilon(0.01));
  CHECK(out == Approx(12 * updated / (10e9 / 8)).epsilon(0.01));
  CHECK(p.summary.step_s == Approx(host.summary.step_s + in + out).epsilon(0.01));
  CHECK(p.summary.memory.drive_bytes == static_cast<std::int64_t>(updated) * 12);
  CHECK(p.summary.memory.host_bytes == static_cast<std::int64_t>(updated) * 4);  // gradients
}

TEST_CASE("parameters on drives are read before every gather and written when they are updated") {
  const search::Prediction p = predict(kSmallJob, {{"training.offload.parameters", "1"}, {"training.offload.parameters_device", "nvme"}, {"parallelism.zero", "3"}});
  CHECK(bytes_of(p, workload::Axis::kFromDrives) > bytes_of(p, workload::Axis::kToDrives));
  CHECK(bytes_of(p, workload::Axis::kToDrives) >= 2 * static_cast<double>(p.summary.counts.parameters));
  CHECK(bytes_of(p, workload::Axis::kToHost) == 0);
}

TEST_CASE("drives that are too small, or of which nobody says anything, are named") {
  const search::Prediction p = predict(kSmallJob, job({{"training.offload.optimizer", "1"}, {"training.offload.optimizer_device", "nvme"}, {"cluster.node.nvme_tb", "0.001"}}));
  CHECK_FALSE(p.summary.memory.fits);
  REQUIRE_FALSE(p.summary.memory.advice.empty());
  CHECK(p.summary.memory.advice.back().find("drives: the ranks of a node keep") == 0);
  CHECK(refusal({{"training.offload.activations", "1"}, {"training.offload.activations_device", "nvme"}, {"cluster.node", "BM.GPU.H100.8"}}) ==
        "job.json:/training/offload: nobody states the drives of a BM.GPU.H100.8; give /cluster/node/nvme_drives, or nvme_read_gb_per_s and nvme_write_gb_per_s");
  CHECK(refusal({{"training.offload.activations", "1"}, {"cluster.node.nvme_read_gb_per_s", "0"}}) ==
        "job.json:/cluster/node/nvme_read_gb_per_s: drives both read and write; give nvme_read_gb_per_s and nvme_write_gb_per_s, or nvme_drives");
}

TEST_CASE("a captured graph offloads no activations") {
  CHECK(refusal({{"training.offload.activations", "1"}, {"training.cuda_graphs", "true"}}) ==
        "job.json:/training/offload/activations: a captured graph hands no tensor to the host; use cuda_graphs false, or 0");
}
