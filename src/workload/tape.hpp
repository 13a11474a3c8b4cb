#pragma once
// A layer written down as a forward pass, with backward following by itself.
//
// Each forward operation names the tensors it reads and makes, and leaves on the tape how its gradient runs. Played in reverse the tape
// gives the backward pass; where two gradients meet at one tensor they are added, as autograd does. What backward reads of the forward
// pass is what has to be saved; what recompute may drop are the tensors made in its regions; how long a temporary lives is from its
// maker to its last reader. So memory is never written down twice: it follows from the same list that is timed.
//
// Read on: Griewank and Walther, Evaluating Derivatives, chapters 3 (reverse mode) and 12 (checkpointing).
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload {

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

/// Parts of a layer that selective recompute may name. An operation can belong to several.
using Regions = unsigned;
inline constexpr Regions kNoRegion = 0, kNormRegion = 1, kCoreAttention = 2, kMlpActivation = 4, kMlp = 8, kMoeActivation = 16, kMlaUpProjection = 32, kPredictionModule = 256;
/// Marks of what operators of several steps return: attention, for others or for itself; a reduce-scatter. No recompute names them.
inline constexpr Regions kAttentionResult = 64, kScatterResult = 128;

/// What recompute re-runs. `regions`: all operations of those. `every_other_matmul`: torchtitan's selective policy. `whole`: everything.
struct RecomputePolicy {
  bool whole = false, every_other_matmul = false;
  Regions regions = kNoRegion;
};

/// What of the operations written from here on backward runs: all; what passes gradients on, for the weights are frozen; or nothing, for no
/// gradient is wanted of what they make.
enum class Trained : std::uint8_t { kAll, kInputs, kNothing };

class Tape {
 public:
  TensorId tensor(std::string name, std::int64_t bytes);
  /// The layer's input: held from the first operation.
  TensorId input(std::int64_t bytes);

  void forward(Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, Regions regions = kNoRegion);
  /// Operations written from here on belong to these regions too.
  void inside(Regions regions) { inside_ = regions; }
  /// A ticket for a communication that runs beside what follows; forward and backward steps may use it once each.
  int ticket() { return tickets_++; }
  /// Runs when the tape is played back; may call gradient, backward, add_gradient.
  void on_backward(std::function<void()> play) {
    if (trained_ != Trained::kNothing) plays_.push_back({std::move(play), trained_ == Trained::kInputs});
  }
  void train(Trained what) { trained_ = what; }

  /// Gradient with respect to a forward tensor; kNoTensor where none has come.
  [[nodiscard]] TensorId gradient(TensorId of) const { return gradients_[static_cast<std::size_t>(of)]; }
  void set_gradient(TensorId of, TensorId gradient) { gradients_[static_cast<std::size_t>(of)] = gradient; }
  /// Sets it, or adds to the one that is there: one elementwise kernel over `bytes`, in place.
  void add_gradient(TensorId of, TensorId gradient, std::int64_t bytes);
  void backward(Operation op, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes, bool weight_gradient = false);
  /// keeps: bytes of what it makes, which stay through the step.
  void once_per_step(Operation op, std::int64_t keeps) {
    once_per_step_.push_back(std::move(op));
    kept_weights_ += keeps;
  }

  /// Plays the tape back from the output's gradient (as large as the output) and sorts every tensor into the layer's lists.
  /// A layer that ends in a loss has no output: pass kNoTensor.
  Layer finish(TensorId output, const RecomputePolicy& policy);

 private:
  struct Step {
    Operation op;
    std::vector<TensorId> reads, makes;
    Regions regions = kNoRegion;
    bool weight_gradient = false;
  };
  struct TensorRecord {
    std::string name;
    std::int64_t bytes = 0;
  };
  struct Life {
    int made = -1, last = -1;  ///< positions in a list of steps; -1: not there
    int weight = -1;           ///< the last weight-gradient step that reads or makes it
  };
  using Marks = std::vector<bool>;  ///< by tensor or by step

  struct Rerun {
    Marks kept;               ///< tensors that stay from forward to backward
    std::vector<Step> steps;  ///< forward steps that recompute runs, in order
  };

  [[nodiscard]] Rerun plan(const RecomputePolicy& policy, const Marks& needed) const;
  void file_tensors(const Rerun& rerun, const Marks& needed, TensorId output, Layer& layer) const;
  [[nodiscard]] std::vector<Life> lives(const std::vector<Step>& steps) const;
  [[nodiscard]] Marks needed_by_backward() const;
  [[nodiscard]] Marks kept_outputs(const Marks& needed, Regions region) const;
  [[nodiscard]] Marks rerun_for_every_other_matmul(const Marks& needed, Marks& kept) const;
  [[nodiscard]] int last_backward_use(TensorId t) const;

  std::vector<TensorRecord> tensors_;
  std::vector<TensorId> gradients_;
  std::vector<Step> forward_, backward_;
  std::vector<Operation> once_per_step_;
  std::int64_t kept_weights_ = 0;
  struct Play {
    std::function<void()> run;
    bool frozen = false;
  };
  std::vector<Play> plays_;
  Trained trained_ = Trained::kAll;
  bool frozen_ = false;  ///< weight gradients of the play that runs are left out
  int tickets_ = 0;
  Regions inside_ = kNoRegion;
  TensorId input_ = kNoTensor;
  TensorId output_gradient_ = kNoTensor;
};

}  // namespace orrery::workload
