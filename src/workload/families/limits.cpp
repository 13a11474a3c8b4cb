// What families cannot do, in words.
#include <fmt/format.h>

#include "workload/writer.hpp"
#include "table.hpp"

namespace orrery::workload {

void no_context_parallelism(std::vector<Limit>& out, const Split& split, const std::string& what) {
  if (split.cp > 1) out.push_back({"/parallelism/cp", fmt::format("{} has no long sequence that frameworks split over context-parallel ranks; use 1", what)});
}

void fix_tokens(std::vector<Limit>& out, const Training& t, std::int64_t tokens, const std::string& why) {
  if (t.sequence_length != tokens) out.push_back({"/training/sequence_length", fmt::format("{} is not the length of this model's sequences; {}: use {}", t.sequence_length, why, tokens)});
}

void fix_full_mask(std::vector<Limit>& out, const Training& t, const std::string& what) {
  if (t.causal) out.push_back({"/training/attention_mask", fmt::format("{} attends both ways; use \"full\"", what)});
}

std::vector<Limit> limits_of_samples(const std::string& what, const Training& t, const Split& split) {
  std::vector<Limit> out;
  fix_tokens(out, t, 1, "a sample is one token");
  if (split.tp > 1) out.push_back({"/parallelism/tp", fmt::format("{} has no attention heads or MLP columns that frameworks split over tensor-parallel ranks; use 1", what)});
  no_context_parallelism(out, split, what);
  if (quantised_format(t).on) {
    out.push_back({"/training/precision", fmt::format("no framework trains {} in {}; use bf16, fp16, tf32 or fp32", what, to_string(t.precision))});
  }
  if (t.sparse) out.push_back({"/training/sparsity", fmt::format("no framework prunes the weights of {} 2:4 as it trains; leave it out", what)});
  if (t.recompute.mode == RecomputeMode::kSelective) out.push_back({"/training/recompute", fmt::format("{} has none of the parts of a transformer block that selective recompute names; use none or full", what)});
  return out;
}

}  // namespace orrery::workload
