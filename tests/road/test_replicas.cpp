// Replicas of a sharded layout (HSDP): what travels inside a replica and what across.
#include "road.hpp"

using namespace orrery;
using namespace orrery::test;
using document::Value;

namespace {

Overrides on_two_nodes(int zero, int replicas, const Overrides& more = {}) {
  Overrides o = {{"cluster.nodes", "2"}, {"parallelism.zero", std::to_string(zero)}, {"parallelism.replicas", std::to_string(replicas)}};
  o.insert(o.end(), more.begin(), more.end());
  return o;
}

/// Bytes of the collectives of a kind on a group that one of the 16 ranks takes part in: rows count those of all groups.
double volume(const Value& report, const std::string& kind, const std::string& group) {
  double sum = 0;
  for (const Value& row : report.at("collectives").items()) {
    if (row.at("kind").as_string() == kind && row.at("group").as_string() == group) sum += row.at("bytes").as_double() * row.at("count").as_double() * row.at("ranks").as_double() / 16;
  }
  return sum;
}

double nic_bytes_share(const Value& report) {
  double most = 0;
  for (const Value& row : report.at("links").items()) {
    if (row.at("kind").as_string() == "nic") most = std::max(most, row.at("mean_utilisation").as_double());
  }
  return most * report.at("step").at("time_s").as_double();
}

}  // namespace

TEST_CASE("replicas of a node each keep their traffic but the all-reduce of shards inside it") {
  for (const int zero : {1, 2, 3}) {
    const Value plain = report_of(predict(kSmallJob, on_two_nodes(zero, 1)));
    const Value hybrid = report_of(predict(kSmallJob, on_two_nodes(zero, 2)));
    CHECK(volume(hybrid, "reduce_scatter", "dp") == 0);
    CHECK(volume(hybrid, "all_gather", "dp") == 0);
    const double scattered = volume(hybrid, "reduce_scatter", "dp_shard");
    CHECK(scattered == volume(plain, "reduce_scatter", "dp"));
    CHECK(volume(hybrid, "all_gather", "dp_shard") == volume(plain, "all_gather", "dp"));
    // Eight ranks share a copy: each all-reduces an eighth of what was scattered with its one partner.
    CHECK(volume(hybrid, "all_reduce", "dp_replicas") == Approx(scattered / 8).epsilon(1e-4));
    for (const Value& row : hybrid.at("collectives").items()) {
      if (row.at("group").as_string() == "dp_shard") CHECK((row.at("ranks") == Value(8) && row.at("limited_by").as_string() != "nic"));
      if (row.at("group").as_string() == "dp_replicas") CHECK(row.at("ranks") == Value(2));
    }
    CHECK(nic_bytes_share(hybrid) < nic_bytes_share(plain));
  }
}

TEST_CASE("a replica holds a whole copy of what is sharded") {
  for (const int zero : {1, 2, 3}) {
    const auto kinds = [&](int replicas) { return report_of(predict(kSmallJob, on_two_nodes(zero, replicas))).at("memory").at("by_kind_gib"); };
    const Value sixteen = kinds(1), eight = kinds(2), one = kinds(16);
    CHECK(eight.at("optimizer").as_double() == Approx(2 * sixteen.at("optimizer").as_double()).epsilon(0.02));  // blocks are rounded up
    CHECK(one.at("optimizer").as_double() == Approx(16 * sixteen.at("optimizer").as_double()).epsilon(0.02));  // blocks are rounded up
    if (zero == 3) CHECK(eight.at("parameters").as_double() == Approx(2 * sixteen.at("parameters").as_double()).epsilon(0.02));  // blocks are rounded up
  }
}

TEST_CASE("as many replicas as ranks are data parallelism that reduces gradients alone") {
  const Value report = report_of(predict(kSmallJob, on_two_nodes(3, 16)));
  CHECK(volume(report, "reduce_scatter", "dp_shard") + volume(report, "all_gather", "dp_shard") == 0);
  CHECK(volume(report, "all_reduce", "dp_replicas") > 0);
}

TEST_CASE("a folded run with replicas equals the full one in every byte of the report") {
  for (const int zero : {1, 2, 3}) {
    for (const int replicas : {2, 4, 16}) {
      for (const Overrides& more : {Overrides{}, Overrides{{"parallelism.cp", "2"}}, Overrides{{"parallelism.tp", "2"}, {"parallelism.cp", "2"}, {"parallelism.order", R"("cp-tp-dp-ep-pp")"}}}) {
        const std::int64_t tp = more.size() == 3 ? 2 : 1;
        if (16 / tp % replicas != 0) continue;
        const Overrides o = on_two_nodes(zero, replicas, more);
        const search::Prediction folded = predict(kSmallJob, o, true), full = predict(kSmallJob, o, false);
        CHECK(first_difference(bytes_of(folded), bytes_of(full)).empty());
      }
    }
  }
}

TEST_CASE("the order of the grid may be written as Megatron-LM writes it") {
  const Overrides base = {{"parallelism.tp", "4"}, {"cluster.nodes", "2"}};
  Overrides list = base, text = base;
  list.push_back({"parallelism.order", R"(["dp","tp","cp","ep","pp"])"});
  text.push_back({"parallelism.order", "dp-tp-cp-ep-pp"});
  CHECK(predict(kSmallJob, list).summary.step_ps == predict(kSmallJob, text).summary.step_ps);
  Overrides wrong = base;
  wrong.push_back({"parallelism.order", "dp-tp-cp-pp"});
  const auto refused = try_predict(kSmallJob, wrong);
  REQUIRE_FALSE(refused.has_value());
  CHECK(problems(refused.error()) == "job.json:/parallelism/order: the order must name tp, cp, ep, dp and pp once each\n");
}
