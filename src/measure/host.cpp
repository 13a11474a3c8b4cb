// The host back end: the same points as a GPU's, from a CPU. Threads of the BLAS are the library's own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "measure/backends.hpp"
#include "orrery/base/random.hpp"
#include "orrery/measure/run.hpp"

#ifdef ORRERY_OPENBLAS
#include <cblas.h>
#endif

namespace orrery::measure {

#ifndef ORRERY_OPENBLAS

bool has_host_backend() { return false; }
Result<std::unique_ptr<Backend>> make_host(int, Ranks*) {
  return fail("", "", "this build has no host back end: OpenBLAS was not found when it was configured ('apt-get install libopenblas-dev' brings it)");
}

#else

namespace {

using calibration::Point;
using Clock = std::chrono::steady_clock;

/// Bytes that buffers in turn add up to: past the last-level caches of servers.
constexpr std::size_t kTurn = std::size_t{256} << 20;
constexpr int kWarmUp = 2;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

std::vector<float> random_data(std::size_t count, std::uint64_t seed, const std::string& stream) {
  // A few thousand different values, repeated at an odd stride: a CPU's time does not depend on them, only on their being no zeros.
  std::vector<float> values(4093);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_normal(seed, stream, i));
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = values[i % values.size()];
  return out;
}

/// One shape with its buffers in turn.
class Product {
 public:
  Product(const Point& p, std::uint64_t seed) : p_(p), m_(static_cast<std::size_t>(p.m)), n_(static_cast<std::size_t>(p.n)), k_(static_cast<std::size_t>(p.k)) {
    const std::size_t bytes = sizeof(float) * (m_ * k_ + k_ * n_ + m_ * n_);
    turns_ = std::clamp<std::size_t>(kTurn / bytes, 1, 16);
    a_ = random_data(turns_ * m_ * k_, seed, "gemm a");
    b_ = random_data(turns_ * k_ * n_, seed, "gemm b");
    c_.assign(turns_ * m_ * n_, 0.0F);
  }

  void run(std::size_t turn) {
    turn %= turns_;
    const auto m = static_cast<int>(m_), n = static_cast<int>(n_), k = static_cast<int>(k_);
    // Column-major as cuBLAS has it: tn is a weight stored [n, k] against activations [m, k], nn and nt its gradients.
    const bool ta = p_.layout == "tn", tb = p_.layout == "nt";
    cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, 1.0F, &a_[turn * m_ * k_], ta ? k : m, &b_[turn * k_ * n_], tb ? n : k,
                p_.accumulate ? 1.0F : 0.0F, &c_[turn * m_ * n_], m);
  }

  /// Whether sampled entries of a fresh product are right to rounding.
  bool right() {
    std::fill_n(c_.begin(), m_ * n_, 0.0F);
    run(0);
    for (std::size_t s = 0; s < 8; ++s) {
      const std::size_t i = s * 7919 % m_, j = s * 104729 % n_;
      double sum = 0, size = 0;
      for (std::size_t l = 0; l < k_; ++l) {
        const double a = p_.layout == "tn" ? a_[i * k_ + l] : a_[l * m_ + i], b = p_.layout == "nt" ? b_[l * n_ + j] : b_[j * k_ + l];
        sum += a * b;
        size += std::abs(a * b);
      }
      if (!(std::abs(sum - static_cast<double>(c_[j * m_ + i])) <= 1e-5 * size + 1e-6)) return false;
    }
    return true;
  }

 private:
  const Point& p_;
  std::size_t m_, n_, k_, turns_ = 1;
  std::vector<float> a_, b_, c_;
};

/// Streaming kernels as loops that the compiler vectorises.
class Streaming {
 public:
  explicit Streaming(const Point& p) : p_(p) {
    count_ = static_cast<std::size_t>(p.stream == "reduce" ? p.read_bytes : p.write_bytes) / sizeof(float);
    const std::size_t arrays = p.stream == "elementwise" ? 3 : 2;
    turns_ = std::clamp<std::size_t>(kTurn / (arrays * count_ * sizeof(float)), 1, 64);
    x_.assign(turns_ * count_, 1.0F);
    if (p.stream != "reduce") y_.assign(turns_ * count_, 2.0F);
    if (p.stream == "elementwise") z_.assign(turns_ * count_, 3.0F);
  }

  void run(std::size_t turn) {
    const std::size_t at = turn % turns_ * count_;
    if (p_.stream == "copy") {
      std::memcpy(&y_[at], &x_[at], count_ * sizeof(float));
    } else if (p_.stream == "elementwise") {
      for (std::size_t i = 0; i < count_; ++i) z_[at + i] = x_[at + i] + 0.5F * y_[at + i];
    } else {
      float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (std::size_t i = 0; i + 3 < count_; i += 4) s0 += x_[at + i], s1 += x_[at + i + 1], s2 += x_[at + i + 2], s3 += x_[at + i + 3];
      sum_ = s0 + s1 + s2 + s3;
    }
  }
  bool right() {
    run(0);
    if (p_.stream == "copy") return y_[count_ / 2] == 1.0F;
    if (p_.stream == "elementwise") return z_[count_ / 2] == 2.0F;
    return sum_ > 0;
  }

 private:
  const Point& p_;
  std::size_t count_ = 0, turns_ = 1;
  std::vector<float> x_, y_, z_;
  volatile float sum_ = 0;
};

/// One collective between processes. Its time is the slowest rank's, from a moment when all were ready.
class Exchange {
 public:
  Exchange(const Point& p, Ranks& ranks) : p_(p), ranks_(ranks), count_(static_cast<std::size_t>(p.bytes) / sizeof(float)) {
    turns_ = std::clamp<std::size_t>(kTurn / (2 * count_ * sizeof(float)), 1, 16);
    send_.assign(turns_ * count_, static_cast<float>(ranks.rank() + 1));
    receive_.assign(turns_ * count_, 0.0F);
  }
  bool run(std::size_t turn) {
    turn %= turns_;
    return ranks_.collective(p_.collective, &send_[turn * count_], &receive_[turn * count_], count_);
  }
  bool right() {
    if (!run(0)) return false;
    const int size = ranks_.size(), rank = ranks_.rank();
    const auto share = count_ / static_cast<std::size_t>(size);
    const auto sum = static_cast<float>(size * (size + 1) / 2);
    if (p_.collective == "all_reduce") return receive_[count_ - 1] == sum;
    if (p_.collective == "reduce_scatter") return receive_[share - 1] == sum;
    if (p_.collective == "send_recv") return receive_[count_ - 1] == static_cast<float>((rank + size - 1) % size + 1);
    return receive_[0] == 1.0F && receive_[count_ - 1] == static_cast<float>(size);  // gathers and exchanges end in the order of ranks
  }

 private:
  const Point& p_;
  Ranks& ranks_;
  std::size_t count_, turns_ = 1;
  std::vector<float> send_, receive_;
};

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> out;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(':');
      if (colon != std::string::npos && colon + 2 <= line.size()) out.emplace_back("cpu", line.substr(colon + 2));
      break;
    }
  out.emplace_back("hardware_threads", fmt::format("{}", std::thread::hardware_concurrency()));
  out.emplace_back("blas", openblas_get_config());
  out.emplace_back("blas_threads", fmt::format("{}", openblas_get_num_threads()));
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  if (gmtime_r(&now, &day) != nullptr) out.emplace_back("date", fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday));
  return out;
}

class Host : public Backend {
 public:
  Host(int threads, Ranks* ranks) : ranks_(ranks) {
    if (threads > 0) openblas_set_num_threads(threads);
  }
  [[nodiscard]] std::string problem() const override { return ""; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const override {
    auto out = measure::environment();
    if (ranks_ != nullptr) {
      out.emplace_back("mpi", ranks_->library());
      out.emplace_back("ranks", fmt::format("{} on {} machines", ranks_->size(), ranks_->nodes()));
    }
    return out;
  }
  [[nodiscard]] std::vector<Point> shapes(const std::string& set) const override { return host_shapes(set, ranks_); }
  [[nodiscard]] std::string refusal(const Point& p) const override {
    constexpr double kMostFlops = 4e12, kMostBytes = 4e9;
    if (p.kind == Point::Kind::kGemm) {
      if (p.dtype != "fp32") return fmt::format("the host's BLAS multiplies fp32, not {}", p.dtype);
      if (p.batch != 1) return "the host's BLAS multiplies one product at a time";
      const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
      if (2 * m * n * k > kMostFlops || 4 * (m * k + k * n + m * n) > kMostBytes) return "it is larger than a host multiplies in seconds";
      return "";
    }
    if (p.kind == Point::Kind::kAttention) return "the host has no fused attention";
    if (p.kind == Point::Kind::kStream) {
      if (p.stream != "copy" && p.stream != "elementwise" && p.stream != "reduce") return fmt::format("the host has no kernel for stream/{}", p.stream);
      const bool whole = p.stream == "reduce" ? p.write_bytes == 0 : p.read_bytes == (p.stream == "copy" ? 1 : 2) * p.write_bytes;
      if (!whole || p.read_bytes < 64 || p.read_bytes % 8 != 0) return "the kernel shares its bytes between reads and writes in another way";
      return static_cast<double>(p.read_bytes + p.write_bytes) > kMostBytes ? "it is larger than a host streams" : "";
    }
    if (ranks_ == nullptr) return "collectives need processes that mpirun started, with --mpi";
    if (p.ranks != ranks_->size() || p.nodes != ranks_->nodes()) return fmt::format("these are {} ranks on {} machines", ranks_->size(), ranks_->nodes());
    return p.bytes % (4 * ranks_->size()) != 0 ? "its bytes do not divide by the ranks" : "";
  }

  std::string time(Point& p, int repetitions, std::uint64_t seed) override {
    if (p.kind == Point::Kind::kGemm) {
      Product kernel(p, seed);
      return timed(kernel, p, repetitions);
    }
    if (p.kind == Point::Kind::kStream) {
      Streaming kernel(p);
      return timed(kernel, p, repetitions);
    }
    Exchange exchange(p, *ranks_);
    bool right = exchange.right();
    right = ranks_->greatest(right ? 0 : 1) == 0;  // all ranks go on, or none
    if (!right) return fmt::format("{}: the result is wrong", calibration::key_of(p));
    for (int i = -kWarmUp; i < repetitions; ++i) {
      ranks_->barrier();
      const auto begin = Clock::now();
      const bool ran = exchange.run(static_cast<std::size_t>(i + kWarmUp));
      const double us = ranks_->greatest(ran ? microseconds(Clock::now() - begin) : INFINITY);
      if (!std::isfinite(us)) return fmt::format("{}: MPI refused it", calibration::key_of(p));
      if (i >= 0) p.time_us.push_back(std::max(1e-3, us));
    }
    return "";
  }

 private:
  template <class Kernel>
  std::string timed(Kernel& kernel, Point& p, int repetitions) {
    bool right = kernel.right();
    if (ranks_ != nullptr) right = ranks_->greatest(right ? 0 : 1) == 0;
    if (!right) return fmt::format("{}: the result is wrong", calibration::key_of(p));
    // Under MPI every rank runs the same: a training step's products share the memory in the same way.
    if (ranks_ != nullptr) ranks_->barrier();
    for (int i = 0; i < kWarmUp; ++i) kernel.run(static_cast<std::size_t>(i));
    for (int i = 0; i < repetitions; ++i) {
      const auto begin = Clock::now();
      kernel.run(static_cast<std::size_t>(i + kWarmUp));
      p.time_us.push_back(std::max(1e-3, microseconds(Clock::now() - begin)));
    }
    return "";
  }
  Ranks* ranks_;
};

}  // namespace

bool has_host_backend() { return true; }

Result<std::unique_ptr<Backend>> make_host(int threads, Ranks* ranks) { return std::make_unique<Host>(threads, ranks); }

#endif

}  // namespace orrery::measure
