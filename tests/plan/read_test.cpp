// The layout's rules, each with the exact words of its refusal.
#include <string>
#include <vector>

#include "catch.h"
#include "orrery/document/value.hpp"
#include "orrery/plan/plan.hpp"

using namespace orrery;
using namespace orrery::plan;

namespace {

workload::Model gpt(std::int64_t layers = 96) {
  workload::Model m;
  m.layers = layers;
  m.hidden = 12288;
  m.ffn_hidden = 49152;
  m.heads = 96;
  m.kv_heads = 96;
  m.head_dim = 128;
  m.vocab = 51200;
  return m;
}
workload::Training batch_of(std::int64_t global, std::int64_t micro = 1) {
  workload::Training t;
  t.sequence_length = 2048;
  t.global_batch = global;
  t.micro_batch = micro;
  return t;
}
document::Value scenario(const std::string& parallelism, const std::string& uneven = "refuse") {
  return document::parse(R"({"parallelism": )" + parallelism + R"(, "stack": {"layout": {"uneven_layers": ")" + uneven + R"("}}})", "job.json").value();
}
struct Case {
  std::string parallelism;
  std::int64_t gpus = 64;
  workload::Model model = gpt();
  workload::Training training = batch_of(1536);
};
Result<Parallelism> read(const Case& c, const std::string& uneven = "refuse") {
  return read_parallelism(scenario(c.parallelism, uneven), "job.json", c.model, c.training, c.gpus);
}
std::vector<std::string> refusals(const Case& c) {
  std::vector<std::string> lines;
  const auto p = read(c);
  if (!p)
    for (const Diagnostic& d : p.error()) lines.push_back(to_string(d));
  return lines;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("an empty layout is data parallelism over all GPUs") {
  const auto p = read({.parallelism = "{}"});
  REQUIRE(p);
  CHECK(p->dp == 64);
  CHECK(p->layers_per_stage == std::vector<std::int64_t>{96});
  CHECK(p->schedule == Schedule::k1F1B);
  CHECK(microbatches(*p, batch_of(1536)) == 24);
}

TEST_CASE("chunks choose the interleaved schedule, and tp 1 switches sequence parallelism off") {
  const auto p = read({.parallelism = R"({"tp": 1, "sp": true, "pp": 8, "vp": 4})"});
  REQUIRE(p);
  CHECK(p->schedule == Schedule::kInterleaved1F1B);
  CHECK_FALSE(p->sp);
  CHECK(p->layers_per_stage == std::vector<std::int64_t>(32, 3));
  CHECK(read({.parallelism = R"({"tp": 2, "sp": true})"})->sp);
}

TEST_CASE("full stages leave the last one what remains, and are refused where nothing would") {
  const auto split = [](const std::string& parallelism, std::int64_t gpus) { return read({.parallelism = parallelism, .gpus = gpus, .model = gpt(61), .training = batch_of(64)}, "full"); };
  CHECK(split(R"({"pp": 4})", 4)->layers_per_stage == std::vector<std::int64_t>{16, 16, 16, 13});
  CHECK(split(R"({"pp": 8})", 8)->layers_per_stage == std::vector<std::int64_t>{8, 8, 8, 8, 8, 8, 8, 5});
  std::vector<std::int64_t> chunks(16, 4);
  chunks.back() = 1;
  CHECK(split(R"({"pp": 4, "vp": 4})", 4)->layers_per_stage == chunks);
  CHECK_FALSE(split(R"({"pp": 8, "vp": 4})", 8).has_value());
}

TEST_CASE("every member reaches the layout") {
  const auto p = read({.parallelism = R"({"tp": 2, "sp": true, "pp": 2, "dp": 16, "zero": 3, "replicas": 4, "p2p": "overlapped", "schedule": "gpipe",
      "reshard_after_forward": false, "overlap": {"grad_reduce": true, "param_gather": true, "tp": false, "ep": false}, "layers_per_stage": [40, 56],
      "order": ["pp", "dp", "ep", "cp", "tp"], "account_for_embedding": true, "account_for_loss": true})"});
  REQUIRE(p);
  CHECK((p->tp == 2 && p->pp == 2 && p->dp == 16 && p->zero == 3 && p->replicas == 4));
  CHECK((p->sp && p->p2p_overlapped && !p->reshard_after_forward && p->overlap_grad_reduce && p->overlap_param_gather));
  CHECK((p->account_for_embedding && p->account_for_loss));
  CHECK(p->schedule == Schedule::kGpipe);
  CHECK(p->layers_per_stage == std::vector<std::int64_t>{40, 56});
  CHECK(p->order == std::array<GridAxis, 5>{GridAxis::kPp, GridAxis::kDp, GridAxis::kEp, GridAxis::kCp, GridAxis::kTp});
}

TEST_CASE("a remainder of layers goes where the stack puts it") {
  CHECK(read({.parallelism = R"({"pp": 7})", .gpus = 7, .training = batch_of(7)}, "front")->layers_per_stage == std::vector<std::int64_t>{14, 14, 14, 14, 14, 13, 13});
  CHECK(read({.parallelism = R"({"pp": 7})", .gpus = 7, .training = batch_of(7)}, "back")->layers_per_stage == std::vector<std::int64_t>{13, 13, 14, 14, 14, 14, 14});
}

TEST_CASE("layers that stages cannot share are refused with the nearest divisors") {
  CHECK(refusals({.parallelism = R"({"pp": 7})", .gpus = 7, .training = batch_of(7)}) ==
        Lines{"job.json:/parallelism/pp: 7 stages cannot share 96 layers evenly; use a divisor of 96 (6, 8, 12) or give layers_per_stage"});
  CHECK(refusals({.parallelism = R"({"pp": 10, "account_for_embedding": true, "account_for_loss": true})", .gpus = 10, .training = batch_of(10)}) ==
        Lines{"job.json:/parallelism/pp: 10 stages cannot share 96 layers with embedding and head evenly; use a divisor of 98 (7, 14, 49) or give layers_per_stage"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 5})", .gpus = 4, .training = batch_of(4)}) ==
        Lines{"job.json:/parallelism/pp: 4 stages of 5 chunks cannot share 96 layers evenly; give layers_per_stage"});
  CHECK(refusals({.parallelism = R"({"pp": 10, "vp": 3, "account_for_loss": true})", .gpus = 10, .model = gpt(95), .training = batch_of(10)}) ==
        Lines{"job.json:/parallelism/pp: 10 stages of 3 chunks cannot share 95 layers with the head evenly; use a divisor of 32 (4, 8, 16) or give layers_per_stage"});
  CHECK(refusals({.parallelism = R"({"pp": 128})", .gpus = 128}) ==
        Lines{"job.json:/parallelism/pp: 128 stages are more than 96 layers; use fewer stages, or give layers_per_stage"});
  CHECK(refusals({.parallelism = R"({"pp": 64, "vp": 2, "account_for_embedding": true})", .training = batch_of(64)}) ==
        Lines{"job.json:/parallelism/pp: 64 stages of 2 chunks are more than 96 layers with the embedding; use fewer stages, or give layers_per_stage"});
}

TEST_CASE("layers_per_stage must fit the chunks and the model") {
  CHECK(refusals({.parallelism = R"({"pp": 2, "layers_per_stage": [96]})"}) ==
        Lines{"job.json:/parallelism/layers_per_stage: 1 given where pp 2 x vp 1 needs 2; entry c x pp + s is chunk c of stage s"});
  CHECK(refusals({.parallelism = R"({"pp": 2, "layers_per_stage": [48, 47]})"}) ==
        Lines{"job.json:/parallelism/layers_per_stage: the entries add up to 95 layers, but the model has 96"});
  CHECK(refusals({.parallelism = R"({"pp": 2, "layers_per_stage": [97, -1]})"}) ==
        Lines{"job.json:/parallelism/layers_per_stage/0: 97 is no number of layers of a model that has 96"});
  CHECK(read({.parallelism = R"({"pp": 2, "layers_per_stage": [96, 0]})"})->layers_per_stage == std::vector<std::int64_t>{96, 0});
}

TEST_CASE("sizes must multiply to the GPUs of the job") {
  CHECK(refusals({.parallelism = R"({"tp": 8, "pp": 3})"}) ==
        Lines{"job.json:/parallelism/dp: 64 GPUs are no whole number of replicas of tp 8 x cp 1 x pp 3 = 24 GPUs; use 48 or 72 GPUs, or change tp, cp or pp"});
  CHECK(refusals({.parallelism = R"({"tp": 8, "pp": 2, "dp": 8})"}) ==
        Lines{"job.json:/parallelism/dp: tp 8 x cp 1 x pp 2 x dp 8 is not the job's 64 GPUs; use dp 4 or null"});
  CHECK(refusals({.parallelism = R"({"tp": 8, "pp": 16})"}) ==
        Lines{"job.json:/parallelism/tp: one replica takes tp 8 x cp 1 x pp 16 GPUs, but the job has 64"});
  CHECK(refusals({.parallelism = R"({"tp": 4611686018427387904, "pp": 16})"}).front() ==
        "job.json:/parallelism/tp: one replica takes tp 4611686018427387904 x cp 1 x pp 16 GPUs, but the job has 64");
}

TEST_CASE("heads, key-value heads and the FFN must divide by tp, all said at once") {
  workload::Model m = gpt();
  m.kv_heads = 8;
  m.ffn_hidden = 28672;
  CHECK(refusals({.parallelism = R"({"tp": 5})", .gpus = 5, .model = m, .training = batch_of(5)}) ==
        Lines{"job.json:/parallelism/tp: 5 ranks cannot share 96 heads evenly; use a divisor of 96 (4, 6, 8)",
              "job.json:/parallelism/tp: 5 ranks cannot share 8 kv_heads evenly; use a divisor of 8 (2, 4, 8)",
              "job.json:/parallelism/tp: 5 ranks cannot share 28672 ffn_hidden evenly; use a divisor of 28672 (4, 7, 8)"});
  CHECK(refusals({.parallelism = R"({"tp": 16})", .model = m}) ==
        Lines{"job.json:/parallelism/tp: 16 ranks cannot share 8 kv_heads evenly; use a divisor of 8 (2, 4, 8)"});
}

TEST_CASE("sequence parallelism needs a sequence that divides by tp") {
  workload::Training t = batch_of(64);
  t.sequence_length = 2049;
  CHECK(refusals({.parallelism = R"({"tp": 2, "sp": true})", .training = t}) ==
        Lines{"job.json:/training/sequence_length: 2049 tokens cannot be split over 2 ranks by sequence parallelism; use a multiple of 2 or sp false"});
  CHECK(read({.parallelism = R"({"tp": 2, "sp": false})", .training = t}));
}

TEST_CASE("the batch must divide into microbatches of every replica") {
  CHECK(refusals({.parallelism = R"({"tp": 8})", .training = batch_of(100, 3)}) ==
        Lines{"job.json:/training/global_batch: 100 is no multiple of micro_batch 3 x dp 8; use 96 or 120"});
  CHECK(refusals({.parallelism = "{}", .training = batch_of(32)}) ==
        Lines{"job.json:/training/global_batch: 32 is no multiple of micro_batch 1 x dp 64; use 64 or more"});
  CHECK(refusals({.parallelism = "{}", .training = batch_of(32, INT64_MAX / 2)}) ==
        Lines{"job.json:/training/global_batch: 32 is no multiple of micro_batch 4611686018427387903 x dp 64"});
  CHECK(refusals({.parallelism = "{}", .training = batch_of(64 * 1'000'001)}) ==
        Lines{"job.json:/training/global_batch: 1000001 microbatches a step are more than Orrery plays; use at most 1000000"});
}

TEST_CASE("the schedule must admit chunks, stages and microbatches") {
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "schedule": "1f1b"})"}) ==
        Lines{"job.json:/parallelism/vp: 1f1b has one chunk per stage; use vp 1, or schedule interleaved_1f1b"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "interleaved_1f1b"})"}) ==
        Lines{"job.json:/parallelism/vp: interleaved_1f1b needs at least 2 chunks per stage; use vp 2 or more, or schedule 1f1b"});
  CHECK(refusals({.parallelism = R"({"vp": 2})"}) ==
        Lines{"job.json:/parallelism/pp: interleaved_1f1b needs at least 2 stages; use pp 2 or more, or vp 1 and schedule 1f1b"});
  CHECK(refusals({.parallelism = R"({"pp": 8, "vp": 2})", .training = batch_of(160)}) ==
        Lines{"job.json:/training/global_batch: interleaved_1f1b plays microbatches in rounds of pp 8, but global_batch 160 makes 20 of them; use a multiple of 64"});
}

TEST_CASE("each schedule says what it needs of stages, chunks, microbatches and messages") {
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "zb_v", "p2p": "overlapped"})"}) == Lines{"job.json:/parallelism/vp: zb_v has exactly 2 chunks per stage; use vp 2"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "bfs", "p2p": "overlapped"})"}) ==
        Lines{"job.json:/parallelism/vp: bfs needs at least 2 chunks per stage; use vp 2 or more, or schedule 1f1b"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "schedule": "zb_h1", "p2p": "overlapped"})"}) ==
        Lines{"job.json:/parallelism/vp: zb_h1 has one chunk per stage; use vp 1, or schedule interleaved_1f1b"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "zb_h2", "p2p": "blocking"})"}) ==
        Lines{"job.json:/parallelism/p2p: zb_h2 cannot block: its runtime posts sends and receives ahead and has no call that blocks; use \"overlapped\""});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "schedule": "bfs", "p2p": "blocking"})"}) ==
        Lines{"job.json:/parallelism/p2p: bfs cannot block: the first stage takes nothing back until every microbatch has left it, so a send that blocks would never end; use "
              "\"overlapped\""});
  CHECK(refusals({.parallelism = R"({"pp": 3, "schedule": "dualpipe", "p2p": "overlapped"})", .gpus = 48}) ==
        Lines{"job.json:/parallelism/pp: dualpipe feeds microbatches from both ends of an even number of stages; use pp 4"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "dualpipe", "p2p": "overlapped"})", .training = batch_of(96)}) ==
        Lines{"job.json:/training/global_batch: dualpipe needs at least 2 x pp = 8 microbatches a step, but global_batch 96 makes 6 of them"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "schedule": "dualpipe", "p2p": "overlapped"})", .training = batch_of(144)}) ==
        Lines{"job.json:/training/global_batch: dualpipe sends half of the microbatches from either end, but global_batch 144 makes 9 of them"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "interleave_group": 4})"}) ==
        Lines{"job.json:/parallelism/interleave_group: 1f1b has no groups of microbatches; use null, or schedule interleaved_1f1b"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "interleave_group": 3})"}) ==
        Lines{"job.json:/parallelism/interleave_group: 3 microbatches do not reach from a chunk of the first stage to its next one; use pp 4 or more"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "interleave_group": 9})", .training = batch_of(128)}) ==
        Lines{"job.json:/parallelism/interleave_group: a group of 9 is more than the 8 microbatches of a step; use 4 to 8"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "interleave_group": 6})", .training = batch_of(128)}) ==
        Lines{"job.json:/parallelism/interleave_group: groups of 6 leave 2 of 8 microbatches for the last one, fewer than pp 4; use a divisor of 8 from 4 up"});
  const auto grouped = read({.parallelism = R"({"pp": 4, "vp": 2, "interleave_group": 6})", .training = batch_of(160)});
  REQUIRE(grouped);
  CHECK(grouped->interleave_group == 6);
}

TEST_CASE("layers of a V are split along its way: a remainder in front goes to the first stages of the way down") {
  const auto p = read({.parallelism = R"({"pp": 4, "vp": 2, "schedule": "zb_v", "p2p": "overlapped"})", .model = gpt(11)}, "front");
  REQUIRE(p);
  CHECK(p->placement == Placement::kV);
  CHECK(p->layers_per_stage == std::vector<std::int64_t>{2, 2, 2, 1, 1, 1, 1, 1});
  const auto back = read({.parallelism = R"({"pp": 4, "vp": 2, "schedule": "zb_v", "p2p": "overlapped"})", .model = gpt(11)}, "back");
  REQUIRE(back);
  CHECK(back->layers_per_stage == std::vector<std::int64_t>{1, 1, 1, 1, 2, 2, 2, 1});  // the way up ends on stage 0
}

namespace {
/// Two stages, two microbatches, the lists as given.
Case listed(const std::string& orders, const std::string& more = "") {
  return {.parallelism = R"({"pp": 2, "p2p": "overlapped", "schedule": {"file": {"schema": "orrery/schedule/1", "orders": )" + orders + more + "}}}", .training = batch_of(64)};
}
}  // namespace

TEST_CASE("order lists from a file are read, and what they cannot do is said at the entry") {
  const auto p = read(listed(R"([["F0", "F1", "B0", "I1", "W1"], ["F0", "B0", "F1", "B1"]])"));
  REQUIRE(p);
  CHECK(p->schedule == Schedule::kFile);
  CHECK(schedule_order(*p, 0, 2) ==
        std::vector<ScheduleEntry>{{Pass::kForward, 0, 0}, {Pass::kForward, 1, 0}, {Pass::kBackward, 0, 0}, {Pass::kInput, 1, 0}, {Pass::kWeight, 1, 0}});
  CHECK(closed_form_efficiency(*p, 2) == Approx(6.0 / 9));  // 1F1B on two stages: two microbatches of 3 and (p-1) 3
  const std::string at = "job.json:/parallelism/schedule/file/orders";
  CHECK(refusals(listed(R"([["F0", "F1", "B0", "B1"]])")) == Lines{at + ": 1 lists given where pp 2 needs one for each stage"});
  CHECK(refusals(listed(R"([["F0"], ["F0", "B0", "F1", "B1"]])")) ==
        Lines{at + "/0: 1 entries given where 2 microbatches and 1 chunks need 4, and 6 where each backward pass is split"});
  const std::string what = R"(: is no entry; write F, B, I or W, the microbatch, "." and the chunk unless 0, "&" where it is a pair with the next: "F3", "I0.1")";
  for (const char* bad : {"", "F", "f0", "F-1", "F0.", "F0.x", "F0&&", "F99999999999", "F0 ", "X0", "F+1"}) {
    CAPTURE(bad);
    CHECK(refusals(listed(std::string(R"([["F0", ")") + bad + R"(", "B0", "B1"], ["F0", "B0", "F1", "B1"]])")) == Lines{at + "/0/1" + what});
  }
  CHECK(refusals(listed(R"([["F0", "F2", "B0", "B1"], ["F0", "B0", "F1", "B1"]])")) ==
        Lines{at + "/0/1: forward of microbatch 2 through chunk 0 is no pass of this stage", at + "/0/3: backward of microbatch 1 through chunk 0 comes before its forward",
              at + "/0: forward of microbatch 1 through chunk 0 is missing"});
  CHECK(refusals(listed(R"([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]])")) ==
        Lines{at + "/0/1: backward of microbatch 0 through chunk 0 waits for stage 1, whose list comes to that pass only after waiting for this one",
              at + "/1/1: forward of microbatch 1 through chunk 0 waits for stage 0, whose list comes to that pass only after waiting for this one"});
  CHECK(refusals(listed(R"([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]])", R"(, "placement": "v")")) == Lines{"job.json:/parallelism/vp: order lists with placement v need vp 2"});
}

TEST_CASE("replicas split the group of a sharded layout") {
  CHECK(refusals({.parallelism = R"({"replicas": 2})"}) ==
        Lines{"job.json:/parallelism/replicas: 2 replicas need something that is sharded inside them; use zero 1 or more, or replicas 1"});
  CHECK(refusals({.parallelism = R"({"replicas": 3, "zero": 3})"}) ==
        Lines{"job.json:/parallelism/replicas: 3 replicas cannot split a data-parallel group of 64 evenly; use a divisor of 64 (2, 4, 8)"});
}

TEST_CASE("context parallelism needs kernels that merge, whole pieces of the sequence, and whole heads for Ulysses") {
  workload::Training math = batch_of(1536);
  math.flash_attention = false;
  CHECK(refusals({.parallelism = R"({"cp": 4})", .training = math}) ==
        Lines{"job.json:/training/attention: \"math\" attention cannot cross cp 4 context-parallel ranks; use \"flash\" or cp 1"});
  workload::Model local = gpt();
  local.sliding_window = 512;
  CHECK(refusals({.parallelism = R"({"cp": 4})", .model = local}) ==
        Lines{"job.json:/parallelism/cp_method: layers that see a window of the sequence gather keys or cross ranks by heads; use all_gather or ulysses, or cp 1"});
  CHECK(refusals({.parallelism = R"({"cp": 4, "cp_method": "all_gather"})", .model = local}).empty());
  local.sliding_window.reset();
  local.attention_chunk = 512;
  CHECK(refusals({.parallelism = R"({"cp": 4, "cp_method": "all_gather"})", .model = local}) ==
        Lines{"job.json:/parallelism/cp_method: layers that see a chunk of the sequence cross context-parallel ranks by heads; use ulysses, or cp 1"});
  workload::Model latent = gpt();
  latent.mla.emplace();
  CHECK(refusals({.parallelism = R"({"cp": 4, "cp_method": "ulysses"})", .model = latent}) ==
        Lines{"job.json:/parallelism/cp_method: latent attention, whose keys and values differ in size, goes around a ring; use ring, or cp 1"});
  CHECK(refusals({.parallelism = R"({"cp": 4})", .model = latent}).empty());
  workload::Training odd = batch_of(1536);
  odd.sequence_length = 2052;
  for (const char* method : {"ring", "all_gather"}) {
    CHECK(refusals({.parallelism = std::string(R"({"cp": 4, "cp_method": ")") + method + "\"}", .training = odd}) ==
          Lines{"job.json:/training/sequence_length: 2052 tokens cannot be cut into 8 equal pieces, an early and a late one for each of cp 4 ranks; use a multiple of 8"});
  }
  CHECK(refusals({.parallelism = R"({"cp": 4, "cp_method": "ring_naive"})", .training = odd}).empty());
  CHECK(refusals({.parallelism = R"({"cp": 8, "cp_method": "ulysses"})", .training = odd}) ==
        Lines{"job.json:/training/sequence_length: 2052 tokens cannot be cut into 8 equal pieces for cp 8 ranks; use a multiple of 8"});
  odd.sequence_length = 2056;
  CHECK(refusals({.parallelism = R"({"cp": 4, "tp": 4, "sp": true})", .training = odd}) ==
        Lines{"job.json:/training/sequence_length: 514 tokens of a context-parallel rank cannot be split over 4 ranks by sequence parallelism; use a multiple of 16 or sp false"});
  workload::Model grouped = gpt();
  grouped.kv_heads = 8;
  CHECK(refusals({.parallelism = R"({"cp": 8, "tp": 2, "cp_method": "ulysses"})", .model = grouped}) ==
        Lines{"job.json:/parallelism/cp: ulysses gives each of 8 ranks whole heads, but tp 2 leaves 4 kv_heads to share; use a divisor of 4 (1, 2, 4) or cp_method ring"});
  CHECK(refusals({.parallelism = R"({"cp": 4, "tp": 2, "cp_method": "ulysses"})", .model = grouped}).empty());
  CHECK(read({.parallelism = R"({"cp": 4, "cp_method": "ring_naive"})"})->cp_method == workload::CpMethod::kRingNaive);
}

TEST_CASE("tensor-parallel overlap needs the gathers and scatters of sequence parallelism") {
  CHECK(refusals({.parallelism = R"({"tp": 4, "sp": false, "overlap": {"tp": "ring"}})"}) ==
        Lines{"job.json:/parallelism/overlap/tp: \"ring\" runs the gathers and scatters of sequence parallelism under their products; use sp true or overlap.tp false"});
  CHECK(read({.parallelism = R"({"tp": 4, "sp": true, "overlap": {"tp": "pipelined"}})"})->overlap_tp == workload::TpOverlap::kPipelined);
  CHECK(read({.parallelism = R"({"overlap": {"tp": "pipelined"}})"})->overlap_tp == workload::TpOverlap::kNone);
}

TEST_CASE("experts need a grid of their own that fits ranks, experts and stages") {
  workload::Model m = gpt();
  CHECK(refusals({.parallelism = R"({"ep": 2, "etp": 4})"}) == Lines{"job.json:/parallelism/ep: 2 expert-parallel ranks, but the model has no experts; use 1",
                                                                     "job.json:/parallelism/etp: 4 tensor-parallel ranks of an expert, but the model has none; use 1"});
  workload::Moe& moe = m.moe.emplace();
  moe.experts = 8;
  moe.experts_per_token = 2;
  moe.expert_ffn = 1024;
  CHECK(refusals({.parallelism = R"({"ep": 6})", .model = m}) ==
        Lines{"job.json:/parallelism/ep: etp 1 x ep 6 does not divide the 64 ranks of a stage (tp 1 x cp 1 x dp 64); use an ep that divides 64 (4, 8, 16)"});
  CHECK(refusals({.parallelism = R"({"ep": 16})", .model = m}) == Lines{"job.json:/parallelism/ep: 16 ranks cannot share 8 experts evenly; use a divisor of 8 (2, 4, 8)"});
  m.moe->expert_ffn = 1023;
  CHECK(refusals({.parallelism = R"({"etp": 2})", .model = m}) ==
        Lines{"job.json:/parallelism/etp: 2 ranks cannot share an expert's width 1023 evenly; use a divisor of it (1, 3, 11)"});
  m.moe->expert_ffn = 1024;
  m.mlp_bias = true;
  CHECK(refusals({.parallelism = R"({"etp": 2})", .model = m}) == Lines{"job.json:/parallelism/etp: experts with biases are whole on a rank; use 1 instead of 2"});
  m.mlp_bias = false;
  CHECK(refusals({.parallelism = R"({"tp": 2, "sp": false, "ep": 4})", .model = m}) ==
        Lines{"job.json:/parallelism/sp: experts beside tp 2 need sequence parallelism, or every rank would send the same tokens; use sp true or tp 1"});
  CHECK(refusals({.parallelism = R"({"pp": 2, "ep": 4, "order": ["tp", "cp", "ep", "pp", "dp"]})", .model = m}) ==
        Lines{"job.json:/parallelism/order: stages of 1 neighbouring ranks and of 4 for the experts do not hold the same ranks; put pp last"});
  const auto p = read({.parallelism = R"({"tp": 2, "sp": true, "pp": 2, "ep": 8, "etp": 2, "ep_dispatch": "deepep"})", .model = m});
  REQUIRE(p);
  CHECK(p->expert_dp() == 2);
  CHECK(p->ep_dispatch == workload::ExpertDispatch::kDeepEp);
}

TEST_CASE("exchanges run under another pass where a schedule has pairs of passes, and under shared experts where there are any") {
  CHECK(refusals({.parallelism = R"({"overlap": {"ep": true, "shared_experts": true}})"}) ==
        Lines{"job.json:/parallelism/overlap/shared_experts: the model has no experts; use false", "job.json:/parallelism/overlap/ep: the model has no experts; use false"});
  workload::Model m = gpt();
  workload::Moe& moe = m.moe.emplace();
  moe.experts = 8;
  moe.experts_per_token = 2;
  moe.expert_ffn = 1024;
  CHECK(refusals({.parallelism = R"({"overlap": {"ep": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/overlap/ep: one rank holds all experts, so that there is no exchange; use false, or ep 2 or more"});
  CHECK(refusals({.parallelism = R"({"ep": 4, "ep_dispatch": "all_gather", "overlap": {"ep": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/overlap/ep: all_gather has no exchange that could run under anything; use false, or ep_dispatch all_to_all"});
  CHECK(refusals({.parallelism = R"({"ep": 4, "overlap": {"shared_experts": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/overlap/shared_experts: the model has no shared experts; use false"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "ep": 4, "p2p": "overlapped", "overlap": {"ep": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/overlap/ep: 1f1b computes no forward pass beside a backward one; use interleaved_1f1b, dualpipe or dualpipe_v, or false"});
  CHECK(refusals({.parallelism = R"({"pp": 4, "vp": 2, "ep": 4, "overlap": {"ep": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/p2p: pairs of passes wait for messages of both directions, which blocking calls cannot; use \"overlapped\""});
  m.moe->shared_ffn = 1024;
  CHECK(refusals({.parallelism = R"({"ep": 4, "overlap": {"ep": true, "shared_experts": true}})", .model = m}) ==
        Lines{"job.json:/parallelism/overlap/shared_experts: the exchanges run under another microbatch already; use one of overlap.ep and overlap.shared_experts"});
  workload::Training full = batch_of(1536);
  full.recompute.mode = workload::RecomputeMode::kFull;
  CHECK(refusals({.parallelism = R"({"ep": 4, "overlap": {"ep": true}})", .model = m, .training = full}) ==
        Lines{"job.json:/parallelism/overlap/ep: a layer that is recomputed whole has its exchanges a third time, under nothing; use false, or recompute selective or none"});
  CHECK(read({.parallelism = R"({"ep": 4, "overlap": {"ep": true}})", .model = m})->overlap_ep);
  CHECK(read({.parallelism = R"({"ep": 4, "overlap": {"shared_experts": true}})", .model = m})->overlap_shared_experts);
}

TEST_CASE("a prediction module's projection is cut by columns") {
  workload::Model m = gpt();
  m.mtp_layers = 1;
  m.hidden = 12289;
  CHECK(refusals({.parallelism = R"({"tp": 2, "sp": true})", .model = m}) ==
        Lines{"job.json:/parallelism/tp: 2 ranks cannot share the 12289 columns of a prediction module's projection evenly; use a divisor of 12289 (1, 12289)"});
}

TEST_CASE("sizes below one and orders with a missing axis are refused before anything divides by them") {
  CHECK(refusals({.parallelism = R"({"tp": 0, "pp": -1, "dp": 0, "zero": 4, "order": ["tp", "tp", "ep", "dp", "pp"]})", .training = batch_of(4, 0)}) ==
        Lines{"job.json:/parallelism/tp: 0 is no size; use 1 or more", "job.json:/parallelism/pp: -1 is no size; use 1 or more",
              "job.json:/parallelism/dp: 0 is no size; use 1 or more, or null", "job.json:/parallelism/zero: 4 is no ZeRO stage; use 0, 1, 2 or 3",
              "job.json:/training/micro_batch: 0 is no size; use 1 or more", "job.json:/parallelism/order: the order must name tp, cp, ep, dp and pp once each"});
}
