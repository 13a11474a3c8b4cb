#include "orrery/simulate/simulate.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/calibration/select.hpp"
#include "orrery/workload/adapter.hpp"
#include "machines.hpp"
#include "recipe.hpp"
#include "speeds.hpp"
#include "traced.hpp"

namespace orrery::simulate {
namespace {

using document::Value;

/// Collects the problems of several readers, so that one run names them all.
template <class T>
std::optional<T> keep(Result<T> result, Diagnostics& problems) {
  if (result) return std::move(*result);
  problems.insert(problems.end(), result.error().begin(), result.error().end());
  return std::nullopt;
}

void derive(document::Document& document, const std::string& pointer, Value value) {
  Value* member = document.value.resolve(pointer);
  ORRERY_ASSERT(member != nullptr, "a resolved scenario has every member");
  if (*member == value) return;
  *member = std::move(value);
  for (auto& [at, from] : document.defaults_from) {
    if (at == pointer) {
      from = "derived";
      return;
    }
  }
  document.defaults_from.emplace_back(pointer, "derived");
}

/// Everything read from the scenario, checked together.
Result<bool> read(Outcome& out, const std::string& file) {
  const Value& s = out.scenario.value;
  Diagnostics problems;
  auto model = keep(workload::read_model(s.at("model"), file, "/model"), problems);
  auto training = keep(workload::read_training(s, file), problems);
  auto parts = keep(read_parts(s, file), problems);
  if (!problems.empty()) return fail(std::move(problems));
  if (auto sizes = workload::check_sizes(*model, *training, file); !sizes) return fail(sizes.error());

  out.gpus = parts->gpus;
  auto parallelism = keep(plan::read_parallelism(s, file, *model, *training, out.gpus), problems);
  if (!problems.empty()) return fail(std::move(problems));
  const auto seed = static_cast<std::uint64_t>(s.at("seed").as_int());
  auto built = build_cluster(*parts, seed, file);
  if (!built) return fail(built.error());
  out.cluster = std::move(*built);
  out.job = {std::move(*model), std::move(*training), workload::read_stack_kernels(s.at("stack")), std::move(*parallelism), program::read_stack(s.at("stack"))};
  if (auto fits = fit_recipe(out.job, out.cluster->node(), file); !fits) return fail(fits.error());
  out.grid = std::make_unique<plan::Grid>(out.job.parallelism);
  const calibration::Target target{parts->node.gpu.name, parts->node.gpu.architecture, parts->fabric ? parts->fabric->name : "", parts->fabric ? parts->fabric->kind : ""};
  auto selected = keep(calibration::select(s.at("calibration"), target, file), problems);
  if (!problems.empty()) return fail(std::move(problems));
  out.profile = std::move(selected->profile);
  out.profile.links = calibration::on_network(out.profile.links, network_of(*parts, *out.cluster));
  out.profiles = std::move(selected->parts);
  out.warnings.insert(out.warnings.end(), selected->warnings.begin(), selected->warnings.end());
  return true;
}

void fill_derived(Outcome& out) {
  const plan::Parallelism& p = out.job.parallelism;
  derive(out.scenario, "/parallelism/dp", p.dp);
  derive(out.scenario, "/parallelism/sp", p.sp);
  Value::Array layers;
  for (const std::int64_t n : p.layers_per_stage) layers.emplace_back(n);
  derive(out.scenario, "/parallelism/layers_per_stage", std::move(layers));
  derive(out.scenario, "/cluster/gpus", out.gpus);
  derive(out.scenario, "/cluster/gpus_per_node", out.cluster->gpus_per_node());
  std::sort(out.scenario.defaults_from.begin(), out.scenario.defaults_from.end());
}

lower::Folded unfolded(const engine::Input& input) {
  lower::Folded f;
  f.input = input;
  f.rank_class.resize(input.ranks.size());
  std::iota(f.rank_class.begin(), f.rank_class.end(), 0U);
  f.resource_class.resize(input.resources.size());
  std::iota(f.resource_class.begin(), f.resource_class.end(), 0U);
  return f;
}

}  // namespace

Result<Outcome> simulate(const document::Document& scenario, const Options& options) {
  Outcome out;
  out.scenario = scenario;
  out.warnings = scenario.warnings;
  const std::string& file = scenario.file;
  if (auto ok = read(out, file); !ok) return fail(ok.error());
  fill_derived(out);
  const Value& s = out.scenario.value;
  const auto seed = static_cast<std::uint64_t>(s.at("seed").as_int());
  auto speeds = read_speeds(s.at("events"), out.gpus, seed, file);
  if (!speeds) return fail(speeds.error());

  const auto nccl = read_nccl(s, out.job.stack.nccl_version, file);
  if (!nccl) return fail(nccl.error());
  out.job.stack.nccl_version = nccl->version;

  out.program = std::make_unique<program::Program>(program::build(out.job));
  if (const std::vector<std::string> problems = program::verify(*out.program); !problems.empty()) {
    Diagnostics d;
    for (const std::string& text : problems) d.push_back({file, "", text});
    return fail(std::move(d));
  }
  const lower::World world{*out.program, out.job.parallelism, *out.grid, *out.cluster, out.profile, *nccl, out.job.stack.attention_kernel, *speeds, seed};
  auto lowered = lower::lower(world, file);
  if (!lowered) return fail(lowered.error());
  out.lowered = std::make_unique<lower::Lowered>(std::move(*lowered));
  lower::drop_free_resources(out.lowered->input);
  out.folded = options.fold ? lower::fold(out.lowered->input) : unfolded(out.lowered->input);

  // The quotient is what runs; it breaks a bound exactly where the full input does, and is small.
  if (const std::vector<std::string> broken = engine::check(out.folded.input); !broken.empty()) {
    Diagnostics d;
    for (const std::string& text : broken) d.push_back({file, "", text});
    return fail(std::move(d));
  }
  std::optional<TracedRanks> traced;
  engine::Options play;
  play.max_events = options.max_events;
  if (options.sink != nullptr) play.sink = &traced.emplace(*options.sink, out.folded.rank_class, out.folded.input.ranks.size());
  auto played = engine::run(out.folded.input, *out.lowered->times, play);
  if (const auto* stuck = std::get_if<engine::Stuck>(&played)) {
    Diagnostics d{{file, "", fmt::format("the step got stuck at {:.6f} s", to_seconds(stuck->at).value())}};
    for (const std::string& text : stuck->waits) d.push_back({file, "", text});
    return fail(std::move(d));
  }
  if (const auto* many = std::get_if<engine::TooManyEvents>(&played)) {
    return fail(file, "", fmt::format("the step takes more than {} events ({} rank classes of {} ranks); raise --max-events or let ranks fold", many->limit, out.folded.input.ranks.size(), out.gpus));
  }
  if (const auto* late = std::get_if<engine::TooLong>(&played)) {
    constexpr double kDay = 86400;
    return fail(file, "", fmt::format("after {:.6g} s of the step something takes until beyond {:.0f} days, where simulated time ends; look for a rate or a link capacity far too low, or a size far too large",
                                      to_seconds(late->at).value(), to_seconds(engine::kLatest).value() / kDay));
  }
  out.result = std::move(std::get<engine::Result>(played));
  out.counts = workload::count(out.job.model, out.job.training.sequence_length, out.job.training.causal);
  if (out.job.training.adapter.on()) {
    const workload::AdapterCounts adapters = workload::count_adapters(out.job.model, out.job.training);
    out.counts.trainable_parameters = adapters.trainable;
    out.counts.exact = adapters.exact;
  }
  return out;
}

}  // namespace orrery::simulate
