// Every pair of choices that can meet in one job, met. A covering array (Cohen et al., IEEE TSE 23(7), 1997: greedy, one row at a time)
// over layout, schedule, sharding, recomputation, precision, offload and family: each row runs and its books balance, or it is refused
// with a reason. A pair that no row ran is tried alone, so that nothing hides behind another choice's refusal.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

struct Level {
  const char* name;
  Overrides sets;
};
struct Factor {
  const char* name;
  std::vector<Level> levels;  ///< the first is what everything else meets when a pair is tried alone
};

Overrides set(std::initializer_list<std::pair<const char*, const char*>> list) {
  Overrides o;
  for (const auto& [path, value] : list) o.push_back({path, value});
  return o;
}

const char* const kDense = R"({"schema": "orrery/model/1", "name": "small dense", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "silu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary"})";
const char* const kTied = R"({"schema": "orrery/model/1", "name": "small tied", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": false, "activation": "gelu", "heads": 16, "vocab": 32000, "tied_embeddings": true, "norm": "layer", "norm_bias": true, "linear_bias": true, "position": "learned"})";
const char* const kMoe = R"({"schema": "orrery/model/1", "name": "small moe", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "silu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary",
  "moe": {"experts": 8, "experts_per_token": 2, "expert_ffn": 1024, "shared_experts": 1, "dense_layers": 2}})";
const char* const kLatent = R"({"schema": "orrery/model/1", "name": "small latent", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "silu", "heads": 16, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary",
  "mla": {"q_lora_rank": 384, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64},
  "moe": {"experts": 8, "experts_per_token": 2, "expert_ffn": 1024, "load": {"zipf": 0.5}}})";
const char* const kModules = R"({"schema": "orrery/model/1", "name": "small modules", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "silu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary", "mtp_layers": 2,
  "moe": {"experts": 8, "experts_per_token": 2, "expert_ffn": 1024, "shared_experts": 1, "shared_gate": true}})";
const char* const kLocal = R"({"schema": "orrery/model/1", "name": "small local", "family": "transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "gelu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": true, "norm": "rms", "position": "rotary",
  "post_norms": true, "qk_norm": true, "sliding_window": 512, "global_every": 2, "attn_softcap": 50, "final_softcap": 30})";

const char* const kEncoder = R"({"schema": "orrery/model/1", "name": "small encoder", "family": "encoder", "layers": 16, "hidden": 1024, "ffn_hidden": 4096, "heads": 16,
  "vocab": 32000, "max_positions": 2048, "masked_positions": 320})";
const char* const kEncoderDecoder = R"({"schema": "orrery/model/1", "name": "small encoder-decoder", "family": "encoder_decoder", "encoder_layers": 8, "decoder_layers": 8,
  "hidden": 1024, "ffn_hidden": 2816, "gated_mlp": true, "heads": 16, "vocab": 32000, "tied_embeddings": false, "target_length": 512})";
const char* const kPatches = R"({"schema": "orrery/model/1", "name": "small patches", "family": "vision_transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096, "heads": 16,
  "image_size": 512, "patch_size": 16, "classes": 1000, "pool": "mean"})";
const char* const kDiffusion = R"({"schema": "orrery/model/1", "name": "small diffusion", "family": "diffusion_transformer", "layers": 16, "hidden": 1024, "ffn_hidden": 4096, "heads": 16,
  "latent_size": 64, "patch_size": 2, "classes": 1000})";
const char* const kMaps = R"({"schema": "orrery/model/1", "name": "small maps", "family": "convolutional", "image_size": 224, "classes": 1000,
  "stages": [{"blocks": 4, "width": 64}, {"blocks": 4, "width": 128, "stride": 2}, {"blocks": 4, "width": 256, "stride": 2}, {"blocks": 4, "width": 512, "stride": 2}]})";
const char* const kHybrid = R"({"schema": "orrery/model/1", "name": "small hybrid", "family": "state_space", "layers": 16, "hidden": 1024, "vocab": 32000, "tied_embeddings": false,
  "pattern": "M-M*M-M-M-M*M-M-", "groups": 4, "heads": 16, "kv_heads": 8, "ffn_hidden": 4096})";
const char* const kImages = R"({"schema": "orrery/model/1", "name": "small images", "family": "multimodal", "layers": 12, "hidden": 1024, "ffn_hidden": 4096,
  "gated_mlp": true, "activation": "silu", "heads": 16, "kv_heads": 8, "head_dim": 64, "vocab": 32000, "tied_embeddings": false, "norm": "rms", "position": "rotary",
  "vision": {"image_size": 336, "patch_size": 14, "layers": 4, "hidden": 512, "ffn_hidden": 2048, "heads": 8, "class_token": true, "final_norm": true},
  "projector": {"merge": 2, "norm": true, "widths": [2048, 1024]}, "images": 2})";

/// pp, vp and schedule belong together: what one schedule needs of the others is its own test.
Level pipe(const char* name, const char* pp, const char* vp, const char* schedule) {
  return {name, set({{"parallelism.pp", pp}, {"parallelism.vp", vp}, {"parallelism.schedule", schedule}})};
}

std::vector<Factor> factors() {
  return {
      {"family", {{"dense", set({{"model", kDense}})}, {"tied", set({{"model", kTied}})}, {"local", set({{"model", kLocal}})}, {"moe", set({{"model", kMoe}})},
                  {"moe ep2", set({{"model", kMoe}, {"parallelism.ep", "2"}})}, {"moe ep2 etp2", set({{"model", kMoe}, {"parallelism.ep", "2"}, {"parallelism.etp", "2"}})},
                  {"modules", set({{"model", kModules}, {"parallelism.ep", "2"}})}, {"latent ep4", set({{"model", kLatent}, {"parallelism.ep", "4"}})}, {"encoder", set({{"model", kEncoder}})},
                  {"encoder-decoder", set({{"model", kEncoderDecoder}})}, {"patches", set({{"model", kPatches}, {"training.sequence_length", "1024"}})},
                  {"diffusion", set({{"model", kDiffusion}, {"training.sequence_length", "1024"}})}, {"maps", set({{"model", kMaps}, {"training.sequence_length", "1"}})},
                  {"hybrid", set({{"model", kHybrid}})}, {"images", set({{"model", kImages}})},
                  {"images, projector alone", set({{"model", kImages}, {"model.frozen", R"(["vision", "decoder"])"}})}}},
      {"pipeline", {pipe("none", "1", "1", "null"), pipe("gpipe", "4", "1", "gpipe"), pipe("1f1b", "4", "1", "1f1b"), pipe("interleaved", "2", "2", "interleaved_1f1b"),
                    pipe("bfs", "2", "2", "bfs"), pipe("zb_h1", "4", "1", "zb_h1"), pipe("zb_h2", "4", "1", "zb_h2"), pipe("zb_v", "4", "2", "zb_v"),
                    pipe("v_half", "4", "2", "v_half"), pipe("v_min", "4", "2", "v_min"), pipe("dualpipe", "4", "1", "dualpipe"), pipe("dualpipe_v", "4", "2", "dualpipe_v")}},
      {"tp", {{"1", set({{"parallelism.tp", "1"}})}, {"2", set({{"parallelism.tp", "2"}})}, {"4", set({{"parallelism.tp", "4"}})}}},
      {"cp", {{"1", set({{"parallelism.cp", "1"}})}, {"ring", set({{"parallelism.cp", "2"}, {"parallelism.cp_method", "ring"}})},
              {"naive", set({{"parallelism.cp", "2"}, {"parallelism.cp_method", "ring_naive"}})}, {"gather", set({{"parallelism.cp", "2"}, {"parallelism.cp_method", "all_gather"}})},
              {"ulysses", set({{"parallelism.cp", "2"}, {"parallelism.cp_method", "ulysses"}})}}},
      {"exchanges", {{"alone", {}}, {"under passes", set({{"parallelism.overlap.ep", "true"}})}, {"under shared", set({{"parallelism.overlap.shared_experts", "true"}})}}},
      {"zero", {{"0", set({{"parallelism.zero", "0"}})}, {"1", set({{"parallelism.zero", "1"}})}, {"2", set({{"parallelism.zero", "2"}})}, {"3", set({{"parallelism.zero", "3"}})}}},
      {"recompute", {{"none", set({{"training.recompute", "none"}})}, {"selective", set({{"training.recompute", "selective"}})}, {"full", set({{"training.recompute", "full"}})}}},
      {"precision", {{"bf16", set({{"training.precision", "bf16"}})}, {"fp16", set({{"training.precision", "fp16"}})}, {"tf32", set({{"training.precision", "tf32"}})},
                     {"fp8", set({{"training.precision", "fp8"}, {"training.fp8_recipe", "current"}})}, {"block", set({{"training.precision", "fp8"}, {"training.fp8_recipe", "block128"}})},
                     {"mxfp8", set({{"training.precision", "mxfp8"}})}, {"fp4", set({{"training.precision", "fp4"}})}}},
      {"offload", {{"none", {}}, {"optimizer", set({{"training.offload.optimizer", "0.5"}})}, {"parameters", set({{"training.offload.parameters", "0.5"}})},
                   {"activations", set({{"training.offload.activations", "0.5"}})},
                   {"activations on drives", set({{"training.offload.activations", "1"}, {"training.offload.activations_device", "nvme"}})}}},
      {"adapter", {{"none", {}}, {"lora", set({{"training.adapter", R"({"rank": 16, "targets": ["q_proj", "v_proj", "o_proj", "down_proj"]})"}})},
                   {"qlora", set({{"training.adapter", R"({"rank": 8, "base": "nf4"})"}})}}},
      {"optimizer", {{"adamw", set({{"training.optimizer", "adamw"}})}, {"8-bit", set({{"training.optimizer", "adamw_8bit"}})}, {"adafactor", set({{"training.optimizer", "adafactor"}})},
                     {"muon", set({{"training.optimizer", "muon"}})}, {"sgd", set({{"training.optimizer", "sgd"}})}}},
      {"stack", {{"generic", set({{"stack", "generic"}})}, {"megatron-core", set({{"stack", "megatron-core"}})}, {"torchtitan", set({{"stack", "torchtitan"}})}}},
  };
}

const char* const kJob = R"({"schema": "orrery/scenario/1", "model": "gpt2", "training": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1},
  "parallelism": {"p2p": "overlapped"}, "cluster": {"node": "dgx-b200", "nodes": 4, "fabric": "infiniband-ndr-rail"}})";

using Row = std::vector<std::size_t>;                                             // a level of each factor
using Pair = std::pair<std::pair<std::size_t, std::size_t>, std::pair<std::size_t, std::size_t>>;  // ((factor, level), (factor, level))

/// Rows in which every pair of levels of two factors meets at least once.
std::vector<Row> covering_array(const std::vector<Factor>& all) {
  std::set<Pair> open;
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      for (std::size_t i = 0; i < all[a].levels.size(); ++i)
        for (std::size_t j = 0; j < all[b].levels.size(); ++j) open.insert({{a, i}, {b, j}});
  std::vector<Row> rows;
  while (!open.empty()) {
    // The row starts with the first pair that is open; each further factor takes the level that meets most open pairs with what is there.
    constexpr std::size_t kFree = SIZE_MAX;
    Row row(all.size(), kFree);
    const Pair seed = *open.begin();
    row[seed.first.first] = seed.first.second;
    row[seed.second.first] = seed.second.second;
    for (std::size_t f = 0; f < all.size(); ++f) {
      if (row[f] != kFree) continue;
      std::size_t best = 0, most = 0;
      for (std::size_t level = 0; level < all[f].levels.size(); ++level) {
        // Rotating the order of levels keeps ties from always falling on the first.
        const std::size_t candidate = (level + rows.size()) % all[f].levels.size();
        std::size_t met = 0;
        for (std::size_t g = 0; g < all.size(); ++g) {
          if (g == f || row[g] == kFree) continue;
          met += open.count(f < g ? Pair{{f, candidate}, {g, row[g]}} : Pair{{g, row[g]}, {f, candidate}});
        }
        if (level == 0 || met > most) {
          best = candidate;
          most = met;
        }
      }
      row[f] = best;
    }
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b) open.erase({{a, row[a]}, {b, row[b]}});
    rows.push_back(std::move(row));
  }
  return rows;
}

Overrides sets_of(const std::vector<Factor>& all, const Row& row) {
  Overrides o;
  for (std::size_t f = 0; f < all.size(); ++f) o.insert(o.end(), all[f].levels[row[f]].sets.begin(), all[f].levels[row[f]].sets.end());
  return o;
}

std::string told(const std::vector<Factor>& all, const Row& row) {
  std::string text;
  for (std::size_t f = 0; f < all.size(); ++f) text += fmt::format("{}={} ", all[f].name, all[f].levels[row[f]].name);
  return text;
}

/// The parts sum to the whole, in time and in memory, and nothing is negative.
void check_books(const search::Prediction& p) {
  const document::Value report = report_of(p);
  const document::Value& breakdown = report.at("breakdown");
  double sum = 0;
  for (const auto& [name, value] : breakdown.members()) {
    if (value.is_object()) {
      for (const auto& [axis, seconds] : value.members()) {
        CHECK(seconds.as_double() >= 0);
        sum += seconds.as_double();
      }
    } else {
      CHECK(value.as_double() >= 0);
      sum += value.as_double();
    }
  }
  CHECK(sum == Approx(report.at("step").at("time_s").as_double()).epsilon(1e-9));
  const document::Value& memory = report.at("memory");
  double bytes = 0;
  for (const auto& [kind, gib] : memory.at("by_kind_gib").members()) {
    INFO(kind);
    CHECK(gib.as_double() >= 0);
    bytes += gib.as_double();
  }
  CHECK(bytes == Approx(memory.at("peak_gib").as_double()).epsilon(1e-9));
  CHECK(memory.at("peak_allocated_gib").as_double() <= memory.at("peak_reserved_gib").as_double() * (1 + 1e-12));
  CHECK(memory.at("peak_reserved_gib").as_double() <= memory.at("peak_gib").as_double() * (1 + 1e-12));
  const document::Value& throughput = report.at("throughput");
  CHECK(throughput.at("mfu").as_double() > 0);
  CHECK(throughput.at("mfu").as_double() < 1);
}

}  // namespace

TEST_CASE("the covering array holds every pair of levels") {
  const std::vector<Factor> all = factors();
  const std::vector<Row> rows = covering_array(all);
  std::set<Pair> met;
  for (const Row& row : rows)
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b) met.insert({{a, row[a]}, {b, row[b]}});
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b) pairs += all[a].levels.size() * all[b].levels.size();
  CHECK(met.size() == pairs);
  // No array is shorter than the two largest factors' product.
  std::vector<std::size_t> sizes;
  for (const Factor& f : all) sizes.push_back(f.levels.size());
  std::sort(sizes.rbegin(), sizes.rend());
  CHECK(10 * rows.size() < 11 * sizes[0] * sizes[1]);
}

TEST_CASE("every pair of features runs with its books balanced, folded as unfolded, or is refused with a reason", "[slow]") {
  const std::vector<Factor> all = factors();
  const std::vector<Row> rows = covering_array(all);
  std::set<Pair> ran;
  std::map<std::string, int> reasons;
  std::size_t refused = 0;
  const auto run = [&](const Row& row, bool both) {
    const std::string what = told(all, row);
    INFO(what);
    const auto folded = try_predict(kJob, sets_of(all, row));
    if (!folded) {
      ++refused;
      for (const Diagnostic& d : folded.error()) {
        CHECK_FALSE(d.text.empty());
        CHECK(d.text.find("not built yet") == std::string::npos);
        ++reasons[d.pointer + ": " + d.text];
      }
      return false;
    }
    check_books(*folded);
    if (both) {
      const auto full = try_predict(kJob, sets_of(all, row), false);
      REQUIRE(full);
      CHECK(first_difference(bytes_of(*folded), bytes_of(*full)).empty());
    }
    return true;
  };
  std::size_t n = 0;
  for (const Row& row : rows) {
    if (!run(row, n++ % 4 == 0)) continue;
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b) ran.insert({{a, row[a]}, {b, row[b]}});
  }
  // What only met refusals is tried with everything else at its first level.
  std::size_t alone = 0, never = 0;
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      for (std::size_t i = 0; i < all[a].levels.size(); ++i)
        for (std::size_t j = 0; j < all[b].levels.size(); ++j) {
          if (ran.count({{a, i}, {b, j}}) != 0) continue;
          Row row(all.size(), 0);
          row[a] = i;
          row[b] = j;
          ++alone;
          if (!run(row, false)) ++never;
        }
  std::string summary = fmt::format("{} rows, {} refused; {} pairs tried alone, {} of them refused\n", rows.size(), refused, alone, never);
  for (const auto& [reason, count] : reasons) summary += fmt::format("  {:>4} {}\n", count, reason);
  WARN(summary);
  // Of all pairs more than four of five run in some job; the others have a reason each.
  CHECK(never < (ran.size() + alone) / 5);
}
