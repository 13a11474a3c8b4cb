// Published figures of networks that the catalogue and the routing must agree with; each names its check.
#include <cmath>

#include "shipped.hpp"

using namespace shipped;

namespace {

/// P(no bin holds more than `most`) for n balls thrown into m bins: the n-th coefficient of (sum_{j <= most} x^j/j!)^m, times n!/m^n.
double all_at_most(int n, int m, int most) {
  std::vector<double> series(static_cast<std::size_t>(n) + 1, 0.0);
  series[0] = 1;
  for (int bin = 0; bin < m; ++bin) {
    std::vector<double> next(series.size(), 0.0);
    for (int i = 0; i <= n; ++i) {
      double term = 1;
      for (int j = 0; j <= most && i + j <= n; ++j) {
        next[static_cast<std::size_t>(i + j)] += series[static_cast<std::size_t>(i)] * term;
        term /= j + 1;
      }
    }
    series = next;
  }
  double scale = 1;
  for (int i = 1; i <= n; ++i) scale *= static_cast<double>(i) / m;
  return series.back() * scale;
}

double expected_most(int n, int m) {
  double sum = 0;
  for (int most = 0; most < n; ++most) sum += 1 - all_at_most(n, m, most);
  return sum;
}

struct Loads { double most = 0, idle = 0; };

/// Mean over draws of the busiest uplink and of the idle share, when 8 hosts of one leaf of 8 uplinks each send one flow elsewhere.
Loads drawn(int qps) {
  Fabric f;
  f.link = gbit_per_s(400);
  f.leaf_ports = 16;
  f.routing = Routing::kEcmp;
  f.ecmp_qps = qps;
  const Cluster c = built(node("dgx-h100"), 2, f);  // a plain leaf of 8 hosts is one node
  constexpr int kDraws = 20000;
  Loads sum;
  for (int salt = 0; salt < kDraws; ++salt) {
    std::vector<double> load(8, 0.0);
    for (std::int64_t g = 0; g < 8; ++g) {
      for (const Hop& h : c.route(g, 8 + g, static_cast<std::uint64_t>(salt)).hops) {
        const Link& l = c.links()[h.link.index()];
        if (l.kind == LinkKind::kLeafUp && !l.inbound) load[static_cast<std::size_t>(l.port)] += h.share;
      }
    }
    sum.most += *std::max_element(load.begin(), load.end()) / kDraws;
    sum.idle += static_cast<double>(std::count(load.begin(), load.end(), 0.0)) / 8 / kDraws;
  }
  return sum;
}

}  // namespace

TEST_CASE("net.ecmp.*: what the hash draws is balls into bins, in expectation") {
  // 20,000 draws: a standard error of the mean of about 0.005 (spread 0.66 of the busiest of 8), so 0.02 is 4 of them; the draw is fixed.
  const Loads one = drawn(1), four = drawn(4);
  {
    INFO("net.ecmp.max_load_8x8");
    CHECK(expected_most(8, 8) == Approx(2.5972328186).epsilon(1e-6));
    CHECK(one.most == Approx(expected_most(8, 8)).margin(0.02));
  }
  {
    INFO("net.ecmp.idle_frac");
    CHECK(std::pow(1 - 1.0 / 8, 8) == Approx(0.343608915806).epsilon(1e-9));
    CHECK(one.idle == Approx(std::pow(1 - 1.0 / 8, 8)).margin(0.004));
  }
  {
    INFO("net.ecmp.max_load_32x8");
    CHECK(expected_most(32, 8) / 4 == Approx(1.7619460179).epsilon(1e-6));
    CHECK(four.most == Approx(expected_most(32, 8) / 4).margin(0.01));
  }
}

TEST_CASE("net.pcie5x16, net.pcie_eff: a Gen5 slot carries 32 GT/s x 16 lanes x 128/130, of which 0.88 was measured as payload") {
  INFO("net.pcie5x16");
  const double wire = 32e9 * 16 / 8 * 128 / 130 / 1e9;
  CHECK(wire == Approx(63.0153846154).epsilon(1e-9));
  CHECK(wire == Approx(63.0).epsilon(0.001));
  CHECK(gpu("h100-sxm5-80gb").pcie.value() / 1e9 == Approx(wire).epsilon(0.001));
  INFO("net.pcie_eff");
  CHECK(55.43 / 63.0 == Approx(0.879841269841).epsilon(1e-9));
  CHECK(0.879841269841 == Approx(0.88).epsilon(0.005));
  const Node n = node("dgx-h200");
  CHECK(n.pcie.value() / 1e9 == Approx(55.43).epsilon(0.001));
}

TEST_CASE("net.nvlink_eff: one peer copy measured 396.4 of an H200's 450 GB/s port") {
  INFO("net.nvlink_eff");
  CHECK(396.4 / (gpu("h200-sxm-141gb").scale_up.value() / 1e9) == Approx(0.880888888889).epsilon(1e-9));
  CHECK(0.880888888889 == Approx(0.88).epsilon(0.005));
}

TEST_CASE("net.roce_header_eff: RoCE's payload share at MTU 4096 is what every RoCE fabric ships with") {
  INFO("net.roce_header_eff");
  const double share = 4096.0 / (4096 + 82);
  CHECK(share == Approx(0.980373384394).epsilon(1e-9));
  for (const char* name : {"roce-100g", "roce-200g", "roce-400g", "roce-800g", "roce-200g-rail", "roce-400g-rail", "roce-800g-rail"}) {
    CHECK(fabric(name).efficiency == Approx(share).epsilon(5e-5));  // four digits
  }
  CHECK(fabric("infiniband-ndr").efficiency == Approx(4096.0 / 4122).epsilon(5e-5));
  CHECK(fabric("ethernet-100g-tcp").efficiency == Approx(1448.0 / 1538).epsilon(5e-5));
}
