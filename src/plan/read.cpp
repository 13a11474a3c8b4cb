// Reads parallelism of a resolved scenario and checks what concerns several members: the layout against GPUs, model, batch and stack.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>

#include "orrery/workload/adapter.hpp"
#include "orrery/base/checked.hpp"
#include "orrery/plan/plan.hpp"
#include "orrery/workload/layers.hpp"
#include "plan/read_orders.hpp"
#include "plan/schedules/schedules.hpp"

namespace orrery::plan {

namespace {

using document::Value;

/// More than any step has by far; beyond it the order lists alone would not fit in memory.
constexpr std::int64_t kMostMicrobatches = 1'000'000;
/// Every layer of every microbatch is played, and takes some 10 kB until it has been.
constexpr std::int64_t kMostLayerPasses = 1 << 19;

/// The (at most three) divisors of n nearest to d by ratio, ascending: what to use instead of d.
std::vector<std::int64_t> near_divisors(std::int64_t n, std::int64_t d) {
  std::vector<std::int64_t> all;
  for (std::int64_t k = 1; k <= n / k; ++k) {
    if (n % k != 0) continue;
    all.push_back(k);
    if (k != n / k) all.push_back(n / k);
  }
  const auto distance = [&](std::int64_t k) { return std::abs(std::log(static_cast<double>(k) / static_cast<double>(d))); };
  std::sort(all.begin(), all.end(), [&](std::int64_t a, std::int64_t b) {
    const double da = distance(a), db = distance(b);
    return da != db ? da < db : a < b;
  });
  if (all.size() > 3) all.resize(3);
  std::sort(all.begin(), all.end());
  return all;
}

std::string list(const std::vector<std::int64_t>& v) { return fmt::format("{}", fmt::join(v, ", ")); }

class Reader {
 public:
  Reader(const Value& scenario, const std::string& file, const workload::Model& model, const workload::Training& training, std::int64_t gpus)
      : scenario_(scenario), in_(scenario.at("parallelism")), file_(file), model_(model), training_(training), gpus_(gpus) {}

  Result<Parallelism> read() {
    sizes();
    features();
    family();
    order();
    if (!problems_.empty()) return fail(problems_);  // what follows divides by the sizes
    schedule();
    ranks();
    experts();
    prediction();
    exchanges();
    shards();
    sharding();
    layers();
    batch();
    if (!problems_.empty()) return fail(problems_);
    return p_;
  }

 private:
  void problem(std::string pointer, std::string text) { problems_.push_back({file_, std::move(pointer), std::move(text)}); }
  void here(std::string_view member, std::string text) { problem(fmt::format("/parallelism/{}", member), std::move(text)); }
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const Value& v = in_.at(key);
    return v.is_null() ? otherwise : v.as_int();
  }
  static bool flag(const Value& v, bool otherwise) { return v.is_null() ? otherwise : v.as_bool(); }

  void sizes() {
    struct Size { std::string_view name; std::int64_t* value; };
    for (const Size& s : {Size{"tp", &p_.tp}, Size{"cp", &p_.cp}, Size{"pp", &p_.pp}, Size{"vp", &p_.vp}, Size{"ep", &p_.ep}, Size{"etp", &p_.etp},
                          Size{"replicas", &p_.replicas}}) {
      *s.value = integer(s.name, 1);
      if (*s.value < 1) here(s.name, fmt::format("{} is no size; use 1 or more", *s.value));
    }
    if (!in_.at("dp").is_null() && in_.at("dp").as_int() < 1) here("dp", fmt::format("{} is no size; use 1 or more, or null", in_.at("dp").as_int()));
    p_.zero = integer("zero", 0);
    if (p_.zero < 0 || p_.zero > 3) here("zero", fmt::format("{} is no ZeRO stage; use 0, 1, 2 or 3", p_.zero));
    if (training_.micro_batch < 1) problem("/training/micro_batch", fmt::format("{} is no size; use 1 or more", training_.micro_batch));
  }

  /// Known to the format, not built: refused rather than ignored.
  void features() {
    const Value& overlap = in_.at("overlap");
    static constexpr std::string_view kMethods[] = {"ring", "ring_naive", "all_gather", "ulysses"};
    if (const Value& method = in_.at("cp_method"); method.is_string()) {
      p_.cp_method = static_cast<workload::CpMethod>(std::find(std::begin(kMethods), std::end(kMethods), method.as_string()) - std::begin(kMethods));
    }
    if (const Value& d = in_.at("ep_dispatch"); d.is_string()) {
      const std::string& name = d.as_string();
      p_.ep_dispatch = name == "hierarchical" ? workload::ExpertDispatch::kHierarchical
                       : name == "deepep"     ? workload::ExpertDispatch::kDeepEp
                       : name == "all_gather" ? workload::ExpertDispatch::kAllGather
                                              : workload::ExpertDispatch::kAllToAll;
    }
    p_.overlap_grad_reduce = flag(overlap.at("grad_reduce"), false);
    p_.overlap_param_gather = flag(overlap.at("param_gather"), false);
    p_.sp = flag(in_.at("sp"), false) && p_.tp > 1;
    if (const Value& tp = overlap.at("tp"); tp.is_string() && p_.tp > 1) {
      const std::string& how = tp.as_string();
      p_.overlap_tp = how == "bulk" ? workload::TpOverlap::kBulk : how == "pipelined" ? workload::TpOverlap::kPipelined : workload::TpOverlap::kRing;
      // Megatron-LM training/arguments.py, tp_comm_overlap: without sequence parallelism there are all-reduces, which have no pieces. What is
      // a stack's habit is off then (NeMo, MegatronCommOverlapCallback).
      const bool habit = scenario_.at("stack").at("defaults").at("overlap").at("tp") == tp;
      if (!p_.sp && habit) p_.overlap_tp = workload::TpOverlap::kNone;
      if (!p_.sp && !habit) here("overlap/tp", fmt::format("\"{}\" runs the gathers and scatters of sequence parallelism under their products; use sp true or overlap.tp false", how));
    }
    p_.p2p_overlapped = in_.at("p2p").is_string() && in_.at("p2p").as_string() == "overlapped";
    p_.reshard_after_forward = flag(in_.at("reshard_after_forward"), true);
    p_.account_for_embedding = flag(in_.at("account_for_embedding"), false);
    p_.account_for_loss = flag(in_.at("account_for_loss"), false);
  }

  void family() {
    for (const workload::Limit& limit : workload::family_limits(model_, training_, {p_.tp, p_.cp, p_.pp, p_.vp, p_.sp})) problem(limit.pointer, limit.why);
    for (const workload::Limit& limit : workload::adapter_limits(model_, training_, p_.overlap_tp)) problem(limit.pointer, limit.why);
  }

  void order() {
    if (in_.at("order").is_null()) return;
    if (const auto order = read_order(in_.at("order"))) {
      p_.order = *order;
    } else {
      here("order", "the order must name tp, cp, ep, dp and pp once each");
    }
  }

  void schedule() {
    const Value& name = in_.at("schedule");
    if (name.is_null()) {
      p_.schedule = p_.vp > 1 ? Schedule::kInterleaved1F1B : Schedule::k1F1B;
    } else if (name.is_object()) {
      p_.schedule = Schedule::kFile;
      p_.placement = placement_of(name.at("file"));
    } else {
      const auto rows = schedules();
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const ScheduleRow* r) { return r->id != Schedule::kFile && r->name == name.as_string(); });
      if (row == rows.end()) {
        here("schedule", fmt::format("\"{}\" is unknown; use one of {}", name.as_string(), fmt::join(schedule_names(), ", ")));
        return;
      }
      p_.schedule = (*row)->id;
    }
    const ScheduleRow& row = row_of(p_.schedule);
    if (p_.schedule != Schedule::kFile) p_.placement = row.placement;
    if (p_.schedule == Schedule::kFile && p_.placement != Placement::kLooped && p_.vp != (p_.placement == Placement::kV ? 2 : 1))
      here("vp", fmt::format("order lists with placement {} need vp {}", to_string(p_.placement), p_.placement == Placement::kV ? 2 : 1));
    if (p_.placement == Placement::kTwoWay && p_.pp % 2 != 0) here("pp", fmt::format("{} feeds microbatches from both ends of an even number of stages; use pp {}", row.name, p_.pp + 1));
    if (row.least_chunks == 2 && row.most_chunks == 2 && p_.vp != 2) {
      here("vp", fmt::format("{} has exactly 2 chunks per stage; use vp 2", row.name));
    } else if (p_.vp < row.least_chunks) {
      here("vp", fmt::format("{} needs at least 2 chunks per stage; use vp 2 or more, or schedule 1f1b", row.name));
    } else if (row.most_chunks == 1 && p_.vp > 1) {
      here("vp", fmt::format("{} has one chunk per stage; use vp 1, or schedule interleaved_1f1b", row.name));
    }
    if (row.groups && p_.pp < 2) here("pp", fmt::format("{} needs at least 2 stages; use pp 2 or more, or vp 1 and schedule 1f1b", row.name));
    if (!row.no_blocking.empty() && !p_.p2p_overlapped) here("p2p", fmt::format("{} cannot block: {}; use \"overlapped\"", row.name, row.no_blocking));
    if (const Value& group = in_.at("interleave_group"); !row.groups) {
      if (!group.is_null()) here("interleave_group", fmt::format("{} has no groups of microbatches; use null, or schedule interleaved_1f1b", row.name));
    } else {
      p_.interleave_group = group.is_null() ? p_.pp : group.as_int();
      if (p_.interleave_group < p_.pp)
        here("interleave_group", fmt::format("{} microbatches do not reach from a chunk of the first stage to its next one; use pp {} or more", p_.interleave_group, p_.pp));
    }
  }

  void ranks() {
    std::optional<std::int64_t> replica = checked_mul(p_.tp, p_.cp);
    if (replica) replica = checked_mul(*replica, p_.pp);
    if (!replica || *replica > gpus_) {
      here("tp", fmt::format("one replica takes tp {} x cp {} x pp {} GPUs, but the job has {}", p_.tp, p_.cp, p_.pp, gpus_));
      return;
    }
    if (gpus_ % *replica != 0) {
      here("dp", fmt::format("{} GPUs are no whole number of replicas of tp {} x cp {} x pp {} = {} GPUs; use {} or {} GPUs, or change tp, cp or pp", gpus_,
                             p_.tp, p_.cp, p_.pp, *replica, gpus_ / *replica * *replica, ceil_div(gpus_, *replica) * *replica));
      return;
    }
    const std::int64_t dp = gpus_ / *replica;
    p_.dp = integer("dp", dp);
    if (p_.dp != dp)
      here("dp", fmt::format("tp {} x cp {} x pp {} x dp {} is not the job's {} GPUs; use dp {} or null", p_.tp, p_.cp, p_.pp, p_.dp, gpus_, dp));
  }

  /// Exchanges under other work. Under another microbatch's pass: where a schedule computes forward and backward passes in pairs (DualPipe's
  /// own; Megatron-LM core/pipeline_parallel/combined_1f1b.py with virtual stages or none). Under the shared experts:
  /// core/transformer/moe/shared_experts.py. What is refused is what Megatron-LM's arguments refuse.
  void exchanges() {
    const Value& overlap = in_.at("overlap");
    const bool ep = flag(overlap.at("ep"), false), shared = flag(overlap.at("shared_experts"), false);
    const auto none = [&](const char* member) {
      if (!model_.moe) here(member, "the model has no experts; use false");
      else if (p_.ep == 1) here(member, "one rank holds all experts, so that there is no exchange; use false, or ep 2 or more");
      else if (p_.ep_dispatch == workload::ExpertDispatch::kAllGather) here(member, "all_gather has no exchange that could run under anything; use false, or ep_dispatch all_to_all");
      else return false;
      return true;
    };
    if (shared && !none("overlap/shared_experts") && model_.moe->shared_ffn == 0) here("overlap/shared_experts", "the model has no shared experts; use false");
    if (ep && !none("overlap/ep")) {
      const bool pairs = p_.schedule == Schedule::kDualPipe || p_.schedule == Schedule::kDualPipeV || p_.schedule == Schedule::kInterleaved1F1B || (p_.schedule == Schedule::k1F1B && p_.pp == 1);
      if (!pairs) here("overlap/ep", fmt::format("{} computes no forward pass beside a backward one; use interleaved_1f1b, dualpipe or dualpipe_v, or false", row_of(p_.schedule).name));
      if (p_.pp > 1 && !p_.p2p_overlapped) here("p2p", "pairs of passes wait for messages of both directions, which blocking calls cannot; use \"overlapped\"");
      if (training_.recompute.mode == workload::RecomputeMode::kFull) here("overlap/ep", "a layer that is recomputed whole has its exchanges a third time, under nothing; use false, or recompute selective or none");
      if (shared) here("overlap/shared_experts", "the exchanges run under another microbatch already; use one of overlap.ep and overlap.shared_experts");
    }
    p_.overlap_ep = ep;
    p_.overlap_shared_experts = shared;
  }

  /// A prediction module's projection is cut by columns.
  void prediction() {
    if (model_.mtp_layers > 0 && model_.hidden % p_.tp != 0)
      here("tp", fmt::format("{} ranks cannot share the {} columns of a prediction module's projection evenly; use a divisor of {} ({})", p_.tp, model_.hidden, model_.hidden, list(near_divisors(model_.hidden, p_.tp))));
  }

  /// The experts' own grid over the ranks of a stage (design 5.1): etp x ep x their data-parallel size.
  void experts() {
    if (!model_.moe) {
      if (p_.ep > 1) here("ep", fmt::format("{} expert-parallel ranks, but the model has no experts; use 1", p_.ep));
      if (p_.etp > 1) here("etp", fmt::format("{} tensor-parallel ranks of an expert, but the model has none; use 1", p_.etp));
      return;
    }
    const workload::Moe& moe = *model_.moe;
    const std::int64_t ranks = p_.tp * p_.cp * p_.dp;
    const std::optional<std::int64_t> grid = checked_mul(p_.etp, p_.ep);
    if (!grid || ranks % *grid != 0) {
      here("ep", fmt::format("etp {} x ep {} does not divide the {} ranks of a stage (tp {} x cp {} x dp {}); use an ep that divides {} ({})", p_.etp, p_.ep, ranks, p_.tp,
                             p_.cp, p_.dp, ranks, list(near_divisors(ranks, p_.ep))));
      return;
    }
    if (moe.experts % p_.ep != 0)
      here("ep", fmt::format("{} ranks cannot share {} experts evenly; use a divisor of {} ({})", p_.ep, moe.experts, moe.experts, list(near_divisors(moe.experts, p_.ep))));
    // Each of them would add the whole bias (Megatron-LM core/transformer/transformer_config.py refuses it likewise).
    if (model_.mlp_bias && p_.etp > 1) here("etp", fmt::format("experts with biases are whole on a rank; use 1 instead of {}", p_.etp));
    if (moe.expert_ffn % p_.etp != 0)
      here("etp", fmt::format("{} ranks cannot share an expert's width {} evenly; use a divisor of it ({})", p_.etp, moe.expert_ffn, list(near_divisors(moe.expert_ffn, p_.etp))));
    if (p_.tp > 1 && !p_.sp) here("sp", fmt::format("experts beside tp {} need sequence parallelism, or every rank would send the same tokens; use sp true or tp 1", p_.tp));
    // Both grids must agree on who is in a stage: what varies faster than pp is as many ranks in either.
    std::int64_t dense = 1, expert = 1;
    for (const GridAxis axis : p_.order) {
      if (axis == GridAxis::kPp) break;
      if (axis == GridAxis::kTp) dense *= p_.tp, expert *= p_.etp;
      if (axis == GridAxis::kCp) dense *= p_.cp;
      if (axis == GridAxis::kEp) expert *= p_.ep;
      if (axis == GridAxis::kDp) dense *= p_.dp, expert *= p_.expert_dp();
    }
    if (p_.pp > 1 && dense != expert)
      here("order", fmt::format("stages of {} neighbouring ranks and of {} for the experts do not hold the same ranks; put pp last", dense, expert));
  }

  void shards() {
    struct Width { std::string_view what; std::int64_t width; };
    const bool dense = !model_.moe || model_.moe->dense_layers > 0 || model_.moe->every > 1;
    for (const Width& w : {Width{"heads", model_.heads}, Width{"kv_heads", model_.kv_heads}, Width{"ffn_hidden", dense ? model_.ffn_hidden : 0},
                           Width{"shared_ffn", model_.moe ? model_.moe->shared_ffn : 0}})
      if (w.width % p_.tp != 0)
        here("tp", fmt::format("{} ranks cannot share {} {} evenly; use a divisor of {} ({})", p_.tp, w.width, w.what, w.width, list(near_divisors(w.width, p_.tp))));
    if (p_.sp && training_.sequence_length % p_.tp != 0)
      problem("/training/sequence_length", fmt::format("{} tokens cannot be split over {} ranks by sequence parallelism; use a multiple of {} or sp false",
                                                       training_.sequence_length, p_.tp, p_.tp));
    if (p_.cp > 1) context();
  }

  /// Context parallelism. Rules of Megatron-LM (training/arguments.py) and Transformer Engine (context_parallel.py).
  void context() {
    if (!training_.flash_attention)
      problem("/training/attention", fmt::format("\"math\" attention cannot cross cp {} context-parallel ranks; use \"flash\" or cp 1", p_.cp));
    // Transformer Engine's ring has neither windows nor, in its other methods, values of another size than keys.
    const bool ulysses = p_.cp_method == workload::CpMethod::kUlysses, gathers = p_.cp_method == workload::CpMethod::kAllGather;
    if (model_.sliding_window && !ulysses && !gathers) here("cp_method", "layers that see a window of the sequence gather keys or cross ranks by heads; use all_gather or ulysses, or cp 1");
    if (model_.attention_chunk && !ulysses) here("cp_method", "layers that see a chunk of the sequence cross context-parallel ranks by heads; use ulysses, or cp 1");
    if (model_.mla && (ulysses || gathers)) here("cp_method", "latent attention, whose keys and values differ in size, goes around a ring; use ring, or cp 1");
    const bool zigzag = p_.cp_method == workload::CpMethod::kRing || p_.cp_method == workload::CpMethod::kAllGather;
    const std::int64_t pieces = (zigzag ? 2 : 1) * p_.cp;
    const std::int64_t length = training_.sequence_length;
    if (length % pieces != 0) {
      problem("/training/sequence_length",
              fmt::format("{} tokens cannot be cut into {} equal pieces{}; use a multiple of {}", length, pieces,
                          zigzag ? fmt::format(", an early and a late one for each of cp {} ranks", p_.cp) : fmt::format(" for cp {} ranks", p_.cp), pieces));
    } else if (p_.sp && length / p_.cp % p_.tp != 0) {
      problem("/training/sequence_length", fmt::format("{} tokens of a context-parallel rank cannot be split over {} ranks by sequence parallelism; use a multiple of {} or sp false",
                                                       length / p_.cp, p_.tp, p_.cp * p_.tp));
    }
    if (p_.cp_method != workload::CpMethod::kUlysses) return;
    struct Heads { std::string_view what; std::int64_t number; };
    for (const Heads& h : {Heads{"heads", model_.heads}, Heads{"kv_heads", model_.kv_heads}}) {
      const std::int64_t shared = h.number / p_.tp;
      if (h.number % p_.tp == 0 && shared % p_.cp != 0)
        here("cp", fmt::format("ulysses gives each of {} ranks whole heads, but tp {} leaves {} {} to share; use a divisor of {} ({}) or cp_method ring", p_.cp, p_.tp, shared, h.what,
                               shared, list(near_divisors(shared, p_.cp))));
    }
  }

  void sharding() {
    if (p_.replicas == 1) return;
    if (p_.zero == 0) here("replicas", fmt::format("{} replicas need something that is sharded inside them; use zero 1 or more, or replicas 1", p_.replicas));
    if (model_.moe) here("replicas", "replicas of sharded experts are not built yet; use replicas 1");
    const std::int64_t group = p_.dp * p_.cp;
    if (group % p_.replicas != 0)
      here("replicas", fmt::format("{} replicas cannot split a data-parallel group of {} evenly; use a divisor of {} ({})", p_.replicas, group, group,
                                   list(near_divisors(group, p_.replicas))));
  }

  void layers() {
    const std::optional<std::int64_t> chunks = checked_mul(p_.pp, p_.vp);
    const std::int64_t places = model_.layers + (p_.account_for_embedding ? 1 : 0) + (p_.account_for_loss ? 1 : 0);
    if (const Value& given = in_.at("layers_per_stage"); !given.is_null()) {
      given_layers(given.items(), chunks);
      return;
    }
    const std::string stages = p_.vp == 1 ? fmt::format("{} stages", p_.pp) : fmt::format("{} stages of {} chunks", p_.pp, p_.vp);
    const std::string what = places == model_.layers ? fmt::format("{} layers", places)
                                                     : fmt::format("{} layers with {}", model_.layers,
                                                                   p_.account_for_embedding && p_.account_for_loss ? "embedding and head"
                                                                   : p_.account_for_embedding                     ? "the embedding"
                                                                                                                  : "the head");
    if (!chunks || *chunks > places) {
      here("pp", fmt::format("{} are more than {}; use fewer stages, or give layers_per_stage", stages, what));
      return;
    }
    const Value& uneven = scenario_.at("stack").at("layout").at("uneven_layers");
    if (uneven.is_string() && uneven.as_string() == "cost" && p_.vp == 1 && places == model_.layers) {
      // Costs as nanotron's get_block_compute_costs states them: matrices of attention (as if every head had keys of its own) and MLP, head.
      const auto d = [](std::int64_t n) { return static_cast<double>(n); };
      const double matrices = d(model_.hidden) * (4 * d(model_.heads) * d(model_.head_dim) + 3 * d(model_.ffn_hidden));
      const double layer = matrices > 0 ? matrices : 1;  // networks without such blocks: every layer alike
      p_.layers_per_stage = split_layers_by_cost(model_.layers, p_.pp, layer, d(model_.hidden) * d(model_.vocab));
      return;
    }
    p_.layers_per_stage = split_layers(model_.layers, *chunks, p_.account_for_embedding, p_.account_for_loss, uneven.is_string() ? uneven.as_string() : "refuse");
    // Chunks of a V's way up lie on the stages in reverse; entry c x pp + s is chunk c of stage s all the same.
    if (p_.placement == Placement::kV && !p_.layers_per_stage.empty()) std::reverse(p_.layers_per_stage.begin() + p_.pp, p_.layers_per_stage.end());
    if (!p_.layers_per_stage.empty()) return;
    std::string instead = "give layers_per_stage";
    if (places % p_.vp == 0) {
      const std::vector<std::int64_t> divisors = near_divisors(places / p_.vp, p_.pp);
      instead = fmt::format("use a divisor of {} ({}) or {}", places / p_.vp, list(divisors), instead);
    }
    here("pp", fmt::format("{} cannot share {} evenly; {}", stages, what, instead));
  }

  void given_layers(const Value::Array& given, std::optional<std::int64_t> chunks) {
    if (!chunks || static_cast<std::int64_t>(given.size()) != *chunks) {
      here("layers_per_stage", fmt::format("{} given where pp {} x vp {} needs {}; entry c x pp + s is chunk c of stage s", given.size(), p_.pp, p_.vp,
                                           chunks ? fmt::format("{}", *chunks) : "too many"));
      return;
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::int64_t n = given[i].as_int();
      if (n < 0 || n > model_.layers) {
        here(fmt::format("layers_per_stage/{}", i), fmt::format("{} is no number of layers of a model that has {}", n, model_.layers));
        return;
      }
      p_.layers_per_stage.push_back(n);
      sum += n;
    }
    if (sum != model_.layers) here("layers_per_stage", fmt::format("the entries add up to {} layers, but the model has {}", sum, model_.layers));
  }

  void batch() {
    const std::optional<std::int64_t> pass = checked_mul(training_.micro_batch, p_.dp);
    const std::int64_t batch = training_.global_batch;
    if (!pass || batch < *pass || batch % *pass != 0) {
      const std::int64_t down = pass ? batch / *pass * *pass : 0;
      std::string instead;
      if (pass && down > 0)
        instead = fmt::format("; use {} or {}", down, down + *pass);
      else if (pass)
        instead = fmt::format("; use {} or more", *pass);
      problem("/training/global_batch", fmt::format("{} is no multiple of micro_batch {} x dp {}{}", batch, training_.micro_batch, p_.dp, instead));
      return;
    }
    const std::int64_t m = batch / *pass;
    if (m > kMostMicrobatches) {
      problem("/training/global_batch", fmt::format("{} microbatches a step are more than Orrery plays; use at most {}", m, kMostMicrobatches));
      return;
    }
    if (const auto passes = checked_mul(m, model_.layers); !passes || *passes > kMostLayerPasses) {
      problem("/training/global_batch", fmt::format("{} microbatches a step through {} layers are more than the {} layer passes that Orrery plays; use a smaller "
                                                    "global_batch, a larger micro_batch or more data-parallel ranks", m, model_.layers, kMostLayerPasses));
      return;
    }
    rounds(m, *pass);
  }

  /// m microbatches a step, of `pass` sequences each over all replicas.
  void rounds(std::int64_t m, std::int64_t pass) {
    const ScheduleRow& row = row_of(p_.schedule);
    const auto batch = [&](std::string text) { problem("/training/global_batch", fmt::format("{}, but global_batch {} makes {} of them", text, training_.global_batch, m)); };
    if (row.groups && p_.interleave_group >= p_.pp) {
      const std::int64_t g = p_.interleave_group, rest = m % g;
      if (g == p_.pp && rest != 0) {
        problem("/training/global_batch", fmt::format("{} plays microbatches in rounds of pp {}, but global_batch {} makes {} of them; use a multiple of {}", row.name, p_.pp,
                                                      training_.global_batch, m, pass * p_.pp));
      } else if (g > m) {
        here("interleave_group", fmt::format("a group of {} is more than the {} microbatches of a step; use {} to {}", g, m, p_.pp, m));
      } else if (rest != 0 && rest < p_.pp) {
        here("interleave_group", fmt::format("groups of {} leave {} of {} microbatches for the last one, fewer than pp {}; use a divisor of {} from {} up", g, rest, m, p_.pp, m, p_.pp));
      }
    }
    if (m < row.rounds * p_.pp) batch(fmt::format("{} needs at least {} x pp = {} microbatches a step", row.name, row.rounds, row.rounds * p_.pp));
    if (p_.placement == Placement::kTwoWay && m % 2 != 0) batch(fmt::format("{} sends half of the microbatches from either end", row.name));
    if (p_.schedule == Schedule::kFile && problems_.empty()) {
      if (auto lists = read_orders(in_.at("schedule").at("file"), file_, "/parallelism/schedule/file", p_, m)) {
        p_.orders = std::move(*lists);
      } else {
        problems_.insert(problems_.end(), lists.error().begin(), lists.error().end());
      }
    }
  }

  const Value& scenario_;
  const Value& in_;
  const std::string& file_;
  const workload::Model& model_;
  const workload::Training& training_;
  std::int64_t gpus_;
  Parallelism p_;
  Diagnostics problems_;
};

}  // namespace

Result<Parallelism> read_parallelism(const document::Value& scenario, const std::string& file, const workload::Model& model,
                                     const workload::Training& training, std::int64_t gpus) {
  return Reader(scenario, file, model, training, gpus).read();
}

}  // namespace orrery::plan
