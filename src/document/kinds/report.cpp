// orrery/report/1 and the other documents that Orrery only writes (design 5.4, 6). Readers ignore members they do not know, so the
// schemas are open; what cannot be known is null, never absent.
#include "document/description.hpp"

namespace orrery::document {
namespace {

Member num(const char* name, const char* doc) { return member(name, number(-kLargestNumber, kLargestNumber), doc); }
Member word(const char* name, const char* doc) { return member(name, text(), doc); }
Member count(const char* name, const char* doc) { return member(name, integer(0), doc); }
Member flag(const char* name, const char* doc) { return member(name, boolean(), doc); }
Member part(const char* name, const char* doc, std::vector<Member> members) { return member(name, open_object(std::move(members)), doc).required(); }
Member rows(const char* name, const char* doc, std::vector<Member> members) { return member(name, array(open_object(std::move(members))), doc).required(); }

std::vector<Member> document(const char* kind, std::vector<Member> rest) {
  std::vector<Member> members = document_members(kind, false, std::move(rest));
  members.front().required();
  return members;
}

}  // namespace

const Type& report_type() {
  static const Type type = open_object(document("report", {
      word("orrery_version", "version that wrote it").required(),
      member("scenario", any(), "the scenario with every member filled").required(),
      member("defaults_from", map(choice({{"stack"}, {"schema"}, {"derived"}})), "by pointer into the scenario: who filled the member").required(),
      rows("calibration", "profiles in use", {word("name", "profile"), word("provenance", "best origin in it"),
                                              member("expected_error", open_object({num("median", "of held-out errors"), num("p90", "of held-out errors")}), "held-out error")}),
      part("model", "counts of the model", {count("parameters", "stored weights"), count("parameters_without_embedding", "without the embedding"), count("active_parameters", "used per token"), count("trainable_parameters", "that the job trains"),
          member("flops_per_token", open_object({num("exact", "three times the forward products"), num("megatron", "Megatron-LM's formula"), num("megatron_legacy", "its older one"), num("palm", "PaLM's"), num("six_n", "6 N"), num("torchtitan", "torchtitan's"), num("narayanan", "arXiv:2104.04473")}), "training FLOPs per token, by convention")}),
      part("step", "one optimizer step", {num("time_s", "duration"), num("low_s", "lower end of the band"), num("high_s", "upper end"), num("coverage", "of the band"), member("band_basis", choice({{"conformal"}, {"uncalibrated"}}), "how the band is made")}),
      part("throughput", "rates", {num("tokens_per_s", "of the job"), num("tokens_per_s_per_gpu", "of a GPU"), num("samples_per_s", "sequences"), num("skipped_steps", "share of steps that overflow and are not applied, under fp16"), num("useful_tokens_per_s", "tokens of the steps that are applied"), num("model_tflops_per_gpu", "without recompute"), num("hardware_tflops_per_gpu", "with recompute"),
          num("mfu", "model FLOPs over peak"), num("hfu", "hardware FLOPs over peak"), word("flops_convention", "of the model FLOPs"), num("peak_tflops", "dense peak"), word("peak_dtype", "dtype of the peak"), num("pipeline_efficiency", "work over work and bubble")}),
      part("breakdown", "a partition of the step, mean over ranks", {num("compute_s", "kernels"), num("optimizer_s", "update, clip, norm"),
          member("exposed_comm_s", open_object({num("tp", "tensor"), num("cp", "context"), num("ep", "expert"), num("pp", "pipeline"), num("dp", "data"), num("host", "host memory and its update")}), "compute waits for a communication in flight"), num("bubble_s", "compute waits for a peer that has not started"), num("other_s", "launch and host")}),
      part("memory", "of the worst rank", {flag("fits", "peak within capacity"), num("capacity_gib", "of the GPU"), num("peak_gib", "as nvidia-smi shows"), num("peak_allocated_gib", "in tensors"), num("peak_reserved_gib", "held by the allocator"), count("worst_rank", "rank"), num("host_gib", "in host memory"), num("drive_gib", "on the node's drives"),
          member("timeline", open_object({count("rank", "whose tensors"), num("peak_at_s", "when most is held"), num("peak_gib", "how much"), member("by_kind_gib", map(number()), "of what, then"),
              member("columns", array(open_object({num("at_s", "where the part of the step begins"), member("by_kind_gib", map(number()), "when most is held in it")})), "equal parts of the step")}), "orrery memory with --chart or --timeline"),
          member("largest", array(open_object({word("member", "of the scenario"), count("stated", "what it has"), member("value", integer(), "the largest that fits; null: none"), count("smallest_tried", "smallest tried"), flag("bounded", "not memory ends it"), num("peak_gib", "with it"), num("step_s", "with it")})), "orrery memory with --largest"),
          member("changes", array(open_object({word("change", "to the scenario"), num("peak_gib", "with it"), num("step_s", "with it")})), "orrery memory of a job that does not fit: with which it does, cheapest first"),
          member("by_kind_gib", open_object({num("parameters", ""), num("gradients", ""), num("optimizer", ""), num("activations", ""), num("buffers", ""), num("framework", "")}), "sums to peak_gib")}),
      member("origins", map(number(-1e-9, 1.000001)), "shares of step time by origin").required(),
      part("engine", "size of the simulation", {count("events", "events"), count("rank_classes", "classes that ranks fold into"), count("ranks", "ranks")}),
      rows("stages", "pipeline stages", {count("stage", "number"), count("chunks", "chunks"), count("layers", "decoder layers"), count("ranks", "ranks"), num("compute_s", "kernels"), num("bubble_s", "waits"), num("peak_gib", "memory of the stage's worst rank, as nvidia-smi shows"), num("peak_allocated_gib", "in tensors"), num("peak_reserved_gib", "by the allocator")}),
      rows("collectives", "communication by kind", {word("kind", "kind"), word("group", "axis"), count("ranks", "members"), num("bytes", "each"), count("count", "how many"), num("time_s", "total"), num("exposed_s", "of it exposed"), num("algbw_gb_per_s", "bytes over time"), num("busbw_gb_per_s", "what a link carries"),
          word("algorithm", "NCCL's"), word("protocol", "NCCL's"), count("channels", "NCCL's"), word("limited_by", "the slowest resource"), word("origin", "of the time")}),
      rows("links", "use of the network", {word("link", "lowest name of the row"), word("kind", "kind"), count("count", "links of the row"), num("capacity_gb_per_s", "each direction"), num("mean_utilisation", "over the step"), num("peak_utilisation", "at most")}),
      part("energy", "of a step", {num("step_j", "joules"), num("gpu_mean_w", "mean power of a GPU"), num("j_per_token", "joules per token")}),
      part("price", "money", {word("currency", "ISO 4217"), num("per_gpu_hour", "price"), num("per_million_tokens", "price")}),
      part("goodput", "with failures", {num("availability", "share of time"), num("mttf_h", "mean time to failure"), num("checkpoint_interval_s", "interval"), num("effective_tokens_per_s", "tokens kept")}),
      rows("warnings", "advice", {word("code", "stable name"), word("pointer", "into the scenario"), word("text", "for people")}),
  }));
  return type;
}

const Type& collective_table_type() {
  static const Type type = open_object(document("collective-table", {
      rows("rows", "one per size", {word("kind", "kind"), count("ranks", "members"), count("nodes", "nodes"), num("bytes", "as nccl-tests counts"), num("time_us", "predicted"), num("low_us", "band"), num("high_us", "band"), num("algbw_gb_per_s", "bytes over time"), num("busbw_gb_per_s", "what a link carries"),
          word("algorithm", "NCCL's"), word("protocol", "NCCL's"), count("channels", "NCCL's"), word("limited_by", "the slowest resource"), word("origin", "of the time"),
          member("nearest", open_object({num("bytes", "size"), num("time_us", "measured"), num("busbw_gb_per_s", "measured"), word("origin", "how it is known")}), "the measurement of this kind, ranks and domains that is nearest in size")}),
      member("comparison", array(open_object({word("file", "the log"), count("ranks", "members"), flag("sick", "two sizes in a row are far too slow"),
          member("rows", array(open_object({num("bytes", "size"), num("measured_us", "of the log"), num("predicted_us", "of the cluster as described"), num("ratio", "measured over predicted"), word("health", "healthy, doubtful or sick"), flag("stalled", "larger messages took less time")})), "one per size"),
          member("ranges", array(open_object({num("first_bytes", "smallest size"), num("last_bytes", "largest size"), num("ratio", "mean of measured over predicted"), word("health", "healthy, doubtful or sick"), flag("stalled", "larger messages took less time")})), "neighbouring sizes in one state"),
          member("hypotheses", array(open_object({word("name", "stable name"), word("text", "for people"), num("likelihood", "share; with unexplained they sum to 1"), num("error", "mean of |ln(measured / predicted under it)|"), member("change", array(open_object({word("path", "into the scenario"), word("value", "JSON")})), "what is different")})), "likeliest first, where sick"), num("unexplained", "share of what was not tried")})), "with --compare: each table of the log"),
  }));
  return type;
}

const Type& score_type() {
  static const Type type = open_object(document("score", {
      rows("classes", "one per class of measurement", {word("class", "gemm/bf16, …; /large: m, n, k at least 128, 1 MiB"), count("points", "measurements"), num("median_error", "of |predicted/measured - 1|"), num("p90_error", "of the same"), num("bias", "median of predicted/measured - 1")}),
  }));
  return type;
}

const Type& run_type() {
  static const Type type = open_object(document("run", {
      count("steps", "optimizer steps"), num("step_s", "duration of one"), num("days", "of the whole run"), num("effective_time_ratio", "useful over total time"),
      member("lost_s", map(number(-kLargestNumber, kLargestNumber)), "by cause"), num("energy_mwh", "energy"), num("carbon_t", "tonnes of CO2"),
      member("price", open_object({word("currency", "ISO 4217"), num("total", "of the run"), num("per_million_tokens", "price")}), "money"), num("days_p10", "band"), num("days_p90", "band"),
  }));
  return type;
}

}  // namespace orrery::document
