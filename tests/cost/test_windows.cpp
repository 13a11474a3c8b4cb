// Attention through windows, chunks and caps.
#include "devices.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

cost::GpuCost h100() {
  const auto g = catalogue_gpu("h100-sxm5-80gb");
  return {g, default_profile(g), 1.0, "fa3", cost::Clocks::kSustained};
}
workload::Attention windowed(std::int64_t seq, std::int64_t window, bool chunked = false, bool causal = true) {
  auto a = attention(1, seq, 32, 128, causal);
  a.window = window;
  a.chunked = chunked;
  return a;
}

}  // namespace

TEST_CASE("chunks of a sequence cost what as many short sequences cost") {
  const auto gpu = h100();
  for (const std::int64_t chunk : {512, 1024, 8192}) {
    INFO(chunk);
    CHECK(gpu.attention(windowed(8192, chunk, true)).time.value() == Approx(gpu.attention(attention(8192 / chunk, chunk, 32, 128)).time.value()).epsilon(1e-9));
  }
}

TEST_CASE("a window as long as the sequence costs what no window costs, and a shorter one never more") {
  const auto gpu = h100();
  for (const bool causal : {true, false})
    for (const bool backward : {true, false}) {
      auto a = windowed(8192, 0, false, causal);
      a.backward = backward;
      const double none = gpu.attention(a).time.value();
      a.window = causal ? 8192 : 16384;
      CHECK(gpu.attention(a).time.value() == none);
      double before = 0;
      for (std::int64_t w = 1; w <= 8192; w += 63) {
        a.window = w;
        const double t = gpu.attention(a).time.value();
        INFO(w);
        CHECK(t <= none * (1 + 1e-12));
        CHECK(t >= before * (1 - 1e-9));
        before = t;
      }
    }
}

TEST_CASE("a short window is slower per score than a long one: blocks that its edges cut are computed whole") {
  const auto gpu = h100();
  const auto per_flop = [&](std::int64_t w) { return gpu.attention(windowed(32768, w)).time.value() / windowed(32768, w).flops().value(); };
  CHECK(per_flop(128) > 1.5 * per_flop(1024));
  CHECK(per_flop(1024) > 1.1 * per_flop(8192));
  // 1024 of 32768 keys: the products are a sixteenth of the causal half's, the time at most a tenth
  CHECK(gpu.attention(windowed(32768, 1024)).time.value() < 0.1 * gpu.attention(windowed(32768, 0)).time.value());
}

TEST_CASE("a cap adds a hyperbolic tangent a score: sixteen a clock and SM") {
  const auto gpu = h100();
  auto a = attention(4, 8192, 32, 128, false);  // many tiles: no SM waits
  const double plain = gpu.attention(a).time.value();
  a.softcap = true;
  const double added = gpu.attention(a).time.value() - plain;
  const double scores = 4.0 * 32 * 8192 * 8192;
  const double at_datasheet = scores / (16 * 132 * 1830e6);
  CHECK(added > at_datasheet);
  CHECK(added < 1.2 * at_datasheet);
}
