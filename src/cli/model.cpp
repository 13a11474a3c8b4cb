// orrery model show: what a model is made of, whole and unsharded.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/workload/layers.hpp"

namespace orrery::cli {

namespace {

using document::Value;

/// A layer of one sequence on one GPU, in sums.
struct LayerSum {
  std::string name;
  std::int64_t count = 0, parameters = 0, saved_bytes = 0;
  double forward_flops = 0, backward_flops = 0;
};

double flops(const std::vector<workload::Operation>& operations) {
  double sum = 0;
  for (const workload::Operation& o : operations) sum += o.flops().value();
  return sum;
}

class ModelVerb : public Verb {
 public:
  void define(Arguments arguments) override {
    Arguments show = arguments.subcommand("show", "layers, parameters, FLOPs and bytes", show_);
    show.positional("MODEL", name_, "a catalogue name or a model file");
    show.number("--sequence", sequence_, 1, std::int64_t{1} << 32, "tokens per sequence, for FLOPs and activations");
    show.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
  }

  int run(Streams& s) override {
    const auto document = document::load("model", Value(name_), name_, "", "");
    if (!document) return refused(s, document.error());
    const auto model = workload::read_model(document->value, name_, "");
    if (!model) return refused(s, model.error());
    if (sequence_ == 0) sequence_ = workload::tokens_of_sample(*model, kSequence);
    for (const workload::Limit& limit : workload::family_limits(*model, training(*model), {})) {
      if (limit.pointer == "/training/sequence_length") return refused(s, {{name_, "", limit.why}});
    }
    if (const auto sound = workload::check_sizes(*model, training(*model), name_); !sound) return refused(s, sound.error());
    const workload::ModelCounts counts = workload::count(*model, sequence_, training(*model).causal);
    const std::vector<LayerSum> layers = sums(*model);
    return deliver(s, output_, json(*model, counts, layers, document->value), table(*model, counts, layers));
  }

 private:
  static constexpr std::int64_t kSequence = 4096;

  workload::Training training(const workload::Model& model) const {
    workload::Training t;
    t.causal = model.family == workload::Family::kTransformer || model.family == workload::Family::kStateSpace || model.family == workload::Family::kEncoderDecoder || model.family == workload::Family::kMultimodal;
    t.sequence_length = sequence_;
    t.global_batch = 1;
    return t;
  }

  std::vector<LayerSum> sums(const workload::Model& model) const {
    workload::Shard shard;
    shard.sequence = sequence_;
    std::vector<LayerSum> list;
    const auto add = [&](workload::LayerKind kind, const workload::Block& block, std::int64_t count) {
      const workload::Layer layer = workload::make_layer(kind, model, training(model), shard, workload::StackKernels(), block);
      LayerSum sum{layer.name, count, layer.parameters.stored(), 0, flops(layer.forward), flops(layer.backward)};
      if (kind == workload::LayerKind::kPrediction) sum.parameters -= workload::word_embedding_parameters(model, shard);  // the embedding's own
      for (const workload::SavedTensor& t : layer.saved) sum.saved_bytes += t.bytes;
      list.push_back(std::move(sum));
    };
    add(workload::LayerKind::kEmbedding, {}, 1);
    for (const workload::BlockCount& b : workload::blocks_of(model)) add(workload::LayerKind::kDecoder, b.block, b.layers);
    if (model.mtp_layers > 0) add(workload::LayerKind::kPrediction, workload::block_of(model, model.layers - 1), 1);
    add(workload::LayerKind::kHead, {}, 1);
    return list;
  }

  Value json(const workload::Model& model, const workload::ModelCounts& counts, const std::vector<LayerSum>& layers, const Value& description) const {
    Value::Object flops_per_token;
    for (const auto& [name, value] : metrics::flops_per_token(counts)) flops_per_token.emplace_back(name, std::isnan(value) ? Value() : Value(value));
    Value::Array rows;
    for (const LayerSum& l : layers)
      rows.push_back(Value::Object{{"layer", l.name}, {"count", l.count}, {"parameters", l.parameters}, {"forward_flops", l.forward_flops},
                                   {"backward_flops", l.backward_flops}, {"saved_bytes", l.saved_bytes}});
    return Value::Object{{"schema", "orrery/model-summary/1"}, {"name", model.name}, {"sequence_length", sequence_}, {"parameters", counts.parameters},
                         {"parameters_without_embedding", counts.parameters_without_embedding}, {"active_parameters", counts.active_parameters},
                         {"flops_per_token", std::move(flops_per_token)}, {"layers", std::move(rows)}, {"model", description}};
  }

  std::string table(const workload::Model& model, const workload::ModelCounts& counts, const std::vector<LayerSum>& layers) const {
    const bool samples = workload::tokens_of_sample(model, 0) == 1;
    std::string text = fmt::format("{}\ncounts of one {} on one GPU, bf16{}\n\n", model.name, samples ? "sample" : fmt::format("sequence of {} tokens", sequence_),
                                   training(model).causal ? ", causal" : "");
    const auto row = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<30}{:>24}\n", name, value); };
    row("parameters", fmt::format("{}", counts.parameters));
    row("without embedding", fmt::format("{}", counts.parameters_without_embedding));
    row("active", fmt::format("{}", counts.active_parameters));
    row("bf16 weights", fmt::format("{:.2f} GiB", 2 * static_cast<double>(counts.parameters) / static_cast<double>(kGiB)));
    text += fmt::format("\n  training GFLOP per {}\n", samples ? "sample" : "token");
    std::string others;
    for (const auto& [name, value] : metrics::flops_per_token(counts)) {
      if (!std::isnan(value)) row(name, fmt::format("{:.{}f}", value / 1e9, value < 1e7 ? 6 : 3));
      else others += (others.empty() ? "" : ", ") + name;
    }
    if (!others.empty()) text += fmt::format("  formulas of decoders, which say nothing of this family: {}\n", others);
    text += fmt::format("\n  {:<20}{:>6}{:>15}{:>14}{:>14}{:>13}\n", "layer", "count", "parameters", "forward TF", "backward TF", "kept MiB");
    for (const LayerSum& l : layers)
      text += fmt::format("  {:<20}{:>6}{:>15}{:>14.4f}{:>14.4f}{:>13.1f}\n", l.name, l.count, l.parameters, l.forward_flops / 1e12, l.backward_flops / 1e12,
                          static_cast<double>(l.saved_bytes) / static_cast<double>(kMiB));
    return text;
  }

  std::string name_;
  std::int64_t sequence_ = 0;  ///< 0: the model's own, else 4,096
  OutputOptions output_;
  bool show_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_model() { return std::make_unique<ModelVerb>(); }

}  // namespace orrery::cli
