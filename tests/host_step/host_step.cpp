// A data-parallel training step of a perceptron on the machine itself: BLAS for the products, MPI for the gradients. What the simulator's prediction of
// the same step is held against. Run by mpirun; rank 0 prints the median microseconds of a step.
//   host_step REPETITIONS BATCH WIDTH WIDTH [WIDTH...]
#include <mpi.h>

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct Layer {
  int in, out;
  std::vector<float> weight, bias, weight_gradient, bias_gradient, activation, gradient;
};

class Perceptron {
 public:
  Perceptron(int batch, const std::vector<int>& widths) : batch_(batch), input_(static_cast<std::size_t>(batch * widths.front())) {
    for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = std::sin(static_cast<float>(i));
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      Layer layer{widths[l], widths[l + 1], {}, {}, {}, {}, {}, {}};
      const auto weights = static_cast<std::size_t>(layer.in) * static_cast<std::size_t>(layer.out), outputs = static_cast<std::size_t>(batch) * static_cast<std::size_t>(layer.out);
      layer.weight.resize(weights);
      for (std::size_t i = 0; i < weights; ++i) layer.weight[i] = 0.05F * std::cos(static_cast<float>(i));
      layer.weight_gradient.resize(weights);
      layer.bias.resize(static_cast<std::size_t>(layer.out));
      layer.bias_gradient.resize(static_cast<std::size_t>(layer.out));
      layer.activation.resize(outputs);
      layer.gradient.resize(outputs);
      layers_.push_back(std::move(layer));
    }
  }

  void step(int ranks) {
    forward();
    loss();
    backward();
    for (Layer& l : layers_) {
      reduce(l.weight_gradient);
      reduce(l.bias_gradient);
    }
    const float rate = 1e-3F / static_cast<float>(ranks);
    for (Layer& l : layers_) {
      for (std::size_t i = 0; i < l.weight.size(); ++i) l.weight[i] -= rate * l.weight_gradient[i];
      for (std::size_t i = 0; i < l.bias.size(); ++i) l.bias[i] -= rate * l.bias_gradient[i];
    }
  }
  [[nodiscard]] bool finite() const { return std::isfinite(layers_.front().weight.front()); }

 private:
  void forward() {
    const std::vector<float>* x = &input_;
    for (Layer& l : layers_) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch_, l.out, l.in, 1.0F, x->data(), l.in, l.weight.data(), l.in, 0.0F, l.activation.data(), l.out);
      const bool last = &l == &layers_.back();
      for (std::size_t i = 0; i < l.activation.size(); ++i) {
        const float y = l.activation[i] + l.bias[i % l.bias.size()];
        l.activation[i] = last ? y : std::max(0.0F, y);
      }
      x = &l.activation;
    }
  }
  void loss() {
    Layer& l = layers_.back();
    const auto n = static_cast<std::size_t>(l.out);
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch_); ++row) {
      const float* y = &l.activation[row * n];
      float* g = &l.gradient[row * n];
      const float most = *std::max_element(y, y + n);
      float sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += g[i] = std::exp(y[i] - most);
      for (std::size_t i = 0; i < n; ++i) g[i] = g[i] / sum - (i == row % n ? 1.0F : 0.0F);
    }
  }
  void backward() {
    for (std::size_t at = layers_.size(); at-- > 0;) {
      Layer& l = layers_[at];
      const std::vector<float>& x = at == 0 ? input_ : layers_[at - 1].activation;
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, l.out, l.in, batch_, 1.0F, l.gradient.data(), l.out, x.data(), l.in, 0.0F, l.weight_gradient.data(), l.in);
      std::fill(l.bias_gradient.begin(), l.bias_gradient.end(), 0.0F);
      for (std::size_t i = 0; i < l.gradient.size(); ++i) l.bias_gradient[i % l.bias_gradient.size()] += l.gradient[i];
      if (at == 0) continue;
      Layer& before = layers_[at - 1];
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch_, l.in, l.out, 1.0F, l.gradient.data(), l.out, l.weight.data(), l.in, 0.0F, before.gradient.data(), l.in);
      for (std::size_t i = 0; i < before.gradient.size(); ++i)
        if (!(before.activation[i] > 0)) before.gradient[i] = 0;
    }
  }
  static void reduce(std::vector<float>& v) { MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

  int batch_;
  std::vector<float> input_;
  std::vector<Layer> layers_;
};

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> numbers;
  for (int i = 1; i < count; ++i) numbers.push_back(std::atoi(arguments[i]));
  int code = 2;
  if (numbers.size() >= 4 && *std::min_element(numbers.begin(), numbers.end()) > 0) {
    openblas_set_num_threads(1);
    Perceptron model(numbers[1], {numbers.begin() + 2, numbers.end()});
    std::vector<double> times;
    for (int r = -2; r < numbers[0]; ++r) {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto begin = std::chrono::steady_clock::now();
      model.step(size);
      double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count(), slowest = 0;
      MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (r >= 0) times.push_back(slowest);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    if (rank == 0) std::printf("%.3f\n", times[times.size() / 2]);
    code = model.finite() ? 0 : 1;
  }
  MPI_Finalize();
  return code;
}
