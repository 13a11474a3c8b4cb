#include "tape.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "orrery/base/assert.hpp"

namespace orrery::workload {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

TensorId Tape::tensor(std::string name, std::int64_t bytes) {
  tensors_.push_back({std::move(name), bytes});
  gradients_.push_back(kNoTensor);
  return static_cast<TensorId>(tensors_.size() - 1);
}

TensorId Tape::input(std::int64_t bytes) { return input_ = tensor("input", bytes); }

void Tape::forward(Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions regions) {
  forward_.push_back({std::move(op), reads, makes, regions | inside_, false});
}

void Tape::backward(Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, bool weight_gradient) {
  ORRERY_ASSERT(std::find(reads.begin(), reads.end(), kNoTensor) == reads.end(), "a gradient is read where one has come");
  if (weight_gradient && frozen_) return;
  backward_.push_back({std::move(op), reads, makes, kNoRegion, weight_gradient});
}

void Tape::add_gradient(TensorId of, TensorId g, std::int64_t bytes) {
  const TensorId there = gradient(of);
  if (there != kNoTensor) backward({"add_gradients", Stream{StreamKind::kElementwise, 2 * bytes, bytes}}, {there, g}, {});
  set_gradient(of, g);
}

/// Made: first step that makes it (an operation in place only reads). Last: last step that reads or makes it.
std::vector<Tape::Life> Tape::lives(const std::vector<Step>& steps) const {
  std::vector<Life> out(tensors_.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const TensorId t : steps[i].makes) {
      Life& life = out[at(t)];
      if (life.made < 0) life.made = static_cast<int>(i);
      life.last = static_cast<int>(i);
      if (steps[i].weight_gradient) life.weight = life.last;
    }
    for (const TensorId t : steps[i].reads) {
      out[at(t)].last = static_cast<int>(i);
      if (steps[i].weight_gradient) out[at(t)].weight = static_cast<int>(i);
    }
  }
  return out;
}

Tape::Marks Tape::needed_by_backward() const {
  Marks made(tensors_.size(), false), needed(tensors_.size(), false);
  for (const Step& s : forward_) {
    for (const TensorId t : s.makes) made[at(t)] = true;
  }
  if (input_ != kNoTensor) made[at(input_)] = true;
  for (const Step& s : backward_) {
    for (const TensorId t : s.reads) needed[at(t)] = needed[at(t)] || made[at(t)];
  }
  return needed;
}

/// Results of a core attention or of a prediction module that is recomputed stay where something outside needs them: checkpointing keeps a
/// function's output (Megatron core recompute of core_attn). Norms and activations are recomputed without their output.
Tape::Marks Tape::kept_outputs(const Marks& needed, Regions region) const {
  Marks kept(tensors_.size(), false);
  for (const Step& producer : forward_) {
    if ((producer.regions & region) == 0) continue;
    for (const TensorId t : producer.makes) {
      const bool leaves = std::any_of(forward_.begin(), forward_.end(), [&](const Step& s) {
        return (s.regions & region) == 0 && std::find(s.reads.begin(), s.reads.end(), t) != s.reads.end();
      });
      kept[at(t)] = leaves && needed[at(t)];
    }
  }
  return kept;
}

/// torchtitan's selective activation checkpoint (torchtitan/distributed/activation_checkpoint.py): results of attention, of reduce-scatters
/// and of every other matrix product are kept, the rest of the layer is re-run as far as backward needs it. Attention over context-parallel
/// ranks is one operator there: what its steps make and drop is not its result.
Tape::Marks Tape::rerun_for_every_other_matmul(const Marks& needed, Marks& kept) const {
  std::map<std::vector<TensorId>, int> numbers;  // by what a product makes: its pieces are one
  for (const Step& s : forward_) {
    const auto* gemm = std::get_if<Gemm>(&s.op.work);
    const auto* comm = std::get_if<Comm>(&s.op.work);
    const bool attention = std::holds_alternative<Attention>(s.op.work) || (s.regions & kAttentionResult) != 0;
    const bool keep = attention || (comm != nullptr && comm->kind == CommKind::kReduceScatter) || (s.regions & kScatterResult) != 0 ||
                      (gemm != nullptr && numbers.emplace(s.makes, static_cast<int>(numbers.size()) + 1).first->second % 2 == 1);
    for (const TensorId t : s.makes) kept[at(t)] = kept[at(t)] || (keep && (!attention || needed[at(t)]));
  }
  Marks wanted = needed;
  Marks rerun(forward_.size(), false);
  for (std::size_t i = forward_.size(); i-- > 0;) {
    const Step& s = forward_[i];
    rerun[i] = std::any_of(s.makes.begin(), s.makes.end(), [&](TensorId t) { return wanted[at(t)] && !kept[at(t)]; });
    if (!rerun[i]) continue;
    for (const TensorId t : s.reads) wanted[at(t)] = true;
  }
  return rerun;
}

int Tape::last_backward_use(TensorId t) const {
  for (std::size_t i = backward_.size(); i-- > 0;) {
    if (std::find(backward_[i].reads.begin(), backward_[i].reads.end(), t) != backward_[i].reads.end()) return static_cast<int>(i);
  }
  return 0;  // read by the recompute alone, which ends before the first backward operation
}

Tape::Rerun Tape::plan(const RecomputePolicy& policy, const Marks& needed) const {
  Rerun r{needed, {}};
  Marks rerun(forward_.size(), false);
  if (policy.whole) {
    rerun.assign(forward_.size(), true);
    r.kept.assign(tensors_.size(), false);
  } else if (policy.every_other_matmul) {
    r.kept.assign(tensors_.size(), false);
    r.kept[at(input_)] = true;
    rerun = rerun_for_every_other_matmul(needed, r.kept);
  } else if (policy.regions != kNoRegion) {
    const Regions checkpoints = policy.regions & (kCoreAttention | kPredictionModule);
    const Marks outputs = checkpoints != kNoRegion ? kept_outputs(needed, checkpoints) : Marks(tensors_.size(), false);
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      rerun[i] = (forward_[i].regions & policy.regions) != 0;
      if (!rerun[i]) continue;
      for (const TensorId t : forward_[i].makes) r.kept[at(t)] = r.kept[at(t)] && outputs[at(t)];
    }
  }
  // A communication that is re-run is waited for as in forward.
  for (std::size_t i = 0; i < forward_.size(); ++i) {
    const auto* await = std::get_if<Await>(&forward_[i].op.work);
    if (await == nullptr) continue;
    for (std::size_t j = 0; j < i; ++j) {
      const auto* comm = std::get_if<Comm>(&forward_[j].op.work);
      if (comm != nullptr && comm->ticket == await->ticket) rerun[i] = rerun[j];
    }
  }
  // What is re-run needs its inputs: those that nothing re-run makes are kept too.
  Marks remade(tensors_.size(), false);
  for (std::size_t i = 0; i < forward_.size(); ++i) {
    if (!rerun[i]) continue;
    for (const TensorId t : forward_[i].reads) {
      if (!remade[at(t)]) r.kept[at(t)] = true;
    }
    for (const TensorId t : forward_[i].makes) remade[at(t)] = true;
    r.steps.push_back(forward_[i]);
  }
  return r;
}

/// Every tensor into the list that says when it is allocated and when freed.
void Tape::file_tensors(const Rerun& r, const Marks& needed, TensorId output, Layer& layer) const {
  std::vector<Life> first = lives(forward_), third = lives(backward_);
  const std::vector<Life> second = lives(r.steps);
  // What leaves the layer lives to the end of the pass that makes it.
  if (output != kNoTensor) first[at(output)].last = static_cast<int>(forward_.size()) - 1;
  if (input_ != kNoTensor && gradient(input_) != kNoTensor) third[at(gradient(input_))].last = static_cast<int>(backward_.size()) - 1;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const TensorRecord& record = tensors_[t];
    if (record.bytes == 0) continue;
    const TensorId id = static_cast<TensorId>(t);
    const int born = id == input_ ? 0 : first[t].made;
    if (born >= 0 && r.kept[t]) {
      layer.saved.push_back({record.name, record.bytes, born, last_backward_use(id), third[t].weight});
    } else if (born >= 0) {
      layer.forward_tensors.push_back({record.name, record.bytes, born, std::max(born, first[t].last)});
    }
    if (second[t].made >= 0 && needed[t] && !r.kept[t]) {
      layer.recompute_tensors.push_back({record.name, record.bytes, second[t].made, last_backward_use(id), third[t].weight});
    } else if (second[t].made >= 0) {
      layer.recompute_temporaries.push_back({record.name, record.bytes, second[t].made, second[t].last});
    }
    if (born < 0 && third[t].last >= 0) {
      layer.backward_tensors.push_back({record.name, record.bytes, id == output_gradient_ ? 0 : third[t].made, third[t].last, third[t].weight, id == output_gradient_});
    }
  }
  if (input_ != kNoTensor) layer.input_bytes = tensors_[at(input_)].bytes;
  if (output != kNoTensor) layer.output_bytes = tensors_[at(output)].bytes;
}

Layer Tape::finish(TensorId output, const RecomputePolicy& policy) {
  if (output != kNoTensor) {
    output_gradient_ = tensor("output_gradient", tensors_[at(output)].bytes);
    set_gradient(output, output_gradient_);
  }
  for (std::size_t i = plays_.size(); i-- > 0;) {
    frozen_ = plays_[i].frozen;
    plays_[i].run();
  }

  const Marks needed = needed_by_backward();
  Rerun rerun = plan(policy, needed);
  Layer layer;
  file_tensors(rerun, needed, output, layer);
  for (std::size_t i = 0; i < backward_.size(); ++i) {
    if (backward_[i].weight_gradient) layer.weight_gradient.push_back(static_cast<int>(i));
    layer.backward.push_back(std::move(backward_[i].op));
  }
  for (Step& s : forward_) layer.forward.push_back(std::move(s.op));
  for (Step& s : rerun.steps) layer.recompute.push_back(std::move(s.op));
  layer.once_per_step = std::move(once_per_step_);
  layer.weight_copies = kept_weights_;
  return layer;
}

}  // namespace orrery::workload
