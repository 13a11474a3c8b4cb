// The host back end: the same points as a GPU's, from a CPU. Threads of the BLAS are the library's own.
#include "orrery/measure/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "orrery/base/random.hpp"

#ifdef ORRERY_OPENBLAS
#include <cblas.h>
#endif

namespace orrery::measure {

#ifndef ORRERY_OPENBLAS

bool has_host_backend() { return false; }
Result<calibration::MeasurementSet> run_host(const RunOptions&) {
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

template <class Kernel>
std::string time(Kernel& kernel, Point& p, int repetitions) {
  if (!kernel.right()) return fmt::format("{}: the result is wrong", calibration::key_of(p));
  for (int i = 0; i < kWarmUp; ++i) kernel.run(static_cast<std::size_t>(i));
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = Clock::now();
    kernel.run(static_cast<std::size_t>(i + kWarmUp));
    p.time_us.push_back(std::max(1e-3, microseconds(Clock::now() - begin)));
  }
  return "";
}

std::vector<Point> shapes(const RunOptions& options) {
  const bool standard = options.shapes == "standard";
  std::vector<Point> out;
  const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k, const char* layout, bool accumulate) {
    Point p;
    p.dtype = "fp32", p.m = m, p.n = n, p.k = k, p.layout = layout, p.accumulate = accumulate, p.context = "sustained", p.from = "host";
    out.push_back(std::move(p));
  };
  const std::vector<std::int64_t> extents = standard ? std::vector<std::int64_t>{128, 256, 512, 1024, 1536, 2048} : std::vector<std::int64_t>{128, 256, 512, 1024};
  for (const std::int64_t m : extents)
    for (const std::int64_t n : extents)
      for (const std::int64_t k : extents) gemm(m, n, k, "tn", false);
  for (const std::int64_t e : extents) {
    gemm(e, 512, 512, "nn", false), gemm(512, e, 256, "nn", false);
    gemm(e, 512, 512, "nt", true), gemm(512, e, 256, "nt", true);
  }
  for (const char* kind : {"copy", "elementwise", "reduce"})
    for (std::int64_t bytes = 1 << 16; bytes <= (standard ? 1 << 28 : 1 << 26); bytes *= 2) {
      Point p;
      p.kind = Point::Kind::kStream, p.stream = kind, p.context = "sustained", p.from = "host";
      p.read_bytes = p.stream == "elementwise" ? 2 * bytes : bytes;
      p.write_bytes = p.stream == "reduce" ? 0 : bytes;
      out.push_back(std::move(p));
    }
  // A drawn order: what drifts (clocks, neighbours) then hits all shapes alike.
  std::vector<std::pair<std::uint64_t, Point>> keyed;
  for (std::size_t i = 0; i < out.size(); ++i) keyed.emplace_back(random_bits(options.seed, "order", i), std::move(out[i]));
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  out.clear();
  for (auto& [key, p] : keyed) out.push_back(std::move(p));
  return out;
}

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

}  // namespace

bool has_host_backend() { return true; }

Result<calibration::MeasurementSet> run_host(const RunOptions& options) {
  if (options.threads > 0) openblas_set_num_threads(options.threads);
  calibration::MeasurementSet set;
  set.name = "host";
  set.environment = environment();
  std::vector<Point> all = shapes(options);
  Diagnostics problems;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Point& p = all[i];
    std::string why;
    if (p.kind == Point::Kind::kGemm) {
      Product kernel(p, options.seed);
      why = time(kernel, p, options.repetitions);
    } else {
      Streaming kernel(p);
      why = time(kernel, p, options.repetitions);
    }
    if (why.empty()) set.points.push_back(p);
    else problems.push_back({"", "", why});
    const double spent = microseconds(Clock::now() - begin) * 1e-6;
    if (options.progress) options.progress(i + 1, all.size(), spent / static_cast<double>(i + 1) * static_cast<double>(all.size() - i - 1));
  }
  if (!problems.empty()) {
    problems.resize(std::min<std::size_t>(problems.size(), 20));
    return fail(std::move(problems));
  }
  return set;
}

#endif

}  // namespace orrery::measure
