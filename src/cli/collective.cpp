// orrery collective: what nccl-tests would print on a cluster, with what decides each row.
#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "compare_log.hpp"
#include "orrery/base/checked.hpp"
#include "orrery/base/text.hpp"
#include "orrery/simulate/collectives.hpp"

namespace orrery::cli {

namespace {

using document::Value;

constexpr std::array kKinds = {collective::Kind::kAllReduce, collective::Kind::kAllGather, collective::Kind::kReduceScatter, collective::Kind::kAllToAll,
                               collective::Kind::kBroadcast, collective::Kind::kReduce, collective::Kind::kSendRecv};

/// "8", "64K", "16G": binary multiples, as nccl-tests reads them. Null where it is none, or is not in 1 … 2^50.
std::optional<std::int64_t> read_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::int64_t scale = 1;
  if (unit == "K" || unit == "k") scale = kKiB;
  else if (unit == "M" || unit == "m") scale = kMiB;
  else if (unit == "G" || unit == "g") scale = kGiB;
  else if (!unit.empty()) return std::nullopt;
  const auto bytes = checked_mul(value, scale);
  return bytes && *bytes <= std::int64_t{1} << 50 ? bytes : std::nullopt;
}

/// BEGIN:END, factor 2, or one size.
Result<std::vector<std::int64_t>> read_sizes(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto first = read_size(std::string_view(text).substr(0, colon));
  const auto last = colon == std::string::npos ? first : read_size(std::string_view(text).substr(colon + 1));
  if (!first || !last || *first > *last) {
    return fail("", "", fmt::format("--sizes: \"{}\" is no range of sizes; use BEGIN:END with 1 to 1024T as 8, 64K, 16M or 4G, such as 8:16G", text));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t s = *first; s <= *last; s *= 2) sizes.push_back(s);
  return sizes;
}

/// --cluster as a value: JSON text, a file that holds a cluster or a scenario, or the name of a fabric that is a whole known cluster.
Result<Value> read_cluster(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return document::parse(text, "--cluster");
  std::error_code none;
  if (!std::filesystem::exists(text, none)) {
    return fail(text, "", "no such file; --cluster takes a file with a cluster or a scenario, or JSON text such as {\"node\": \"dgx-h100\", \"nodes\": 2, \"fabric\": \"infiniband-ndr-rail\"}");
  }
  const auto content = document::read_file(text);
  if (!content) return fail(content.error());
  return document::parse(*content, text);
}

/// A scenario around the cluster: collectives need no model, the format does.
Result<document::Document> surround(const Value& given, const std::string& file, const std::string& base_dir, const std::vector<document::Override>& overrides) {
  const bool whole = given.find("cluster") != nullptr;
  Value scenario;
  if (whole) {
    scenario = given;
  } else {
    scenario.set("schema", "orrery/scenario/1");
    scenario.set("model", "gpt2");
    scenario.set("training", Value::Object{{"sequence_length", 1024}, {"global_batch", 1}, {"micro_batch", 1}});
    scenario.set("cluster", given);
  }
  return document::load_scenario_text(document::dump(scenario), file, base_dir, overrides);
}

class Collective : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.positional("KIND", kind_, "all_reduce, all_gather, reduce_scatter, all_to_all, ...");
    arguments.text("--cluster", cluster_, "JSON text, or a file with a cluster or a scenario", "CLUSTER");
    arguments.number("--ranks", ranks_, 2, std::int64_t{1} << 20, "ranks, packed; all GPUs unless given");
    arguments.text("--sizes", sizes_, "BEGIN:END bytes, binary K M G, factor 2; default 8:16G", "SIZES");
    arguments.text("--nccl-version", version_, "NCCL's version; the stack's unless given", "V");
    arguments.repeated("--calibration", calibration_, "profile by name or file; later ones win", "PROFILE");
    arguments.number("--gpus-per-thread", gpus_per_thread_, 1, 1024, "GPUs that one thread of the host drives (nccl-tests -g); default 1");
    arguments.text("--compare", compare_, "a log of nccl-tests to hold against the prediction", "LOG");
    output_.define(arguments);
  }

  int run(Streams& s) override {
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](collective::Kind k) { return to_string(k) == kind_; });
    if (kind == kKinds.end()) {
      std::vector<std::string> known;
      for (const collective::Kind k : kKinds) known.emplace_back(to_string(k));
      return usage_error(s, fmt::format("collective: unknown kind \"{}\"{}", kind_, did_you_mean(kind_, known)));
    }
    if (cluster_.empty()) return usage_error(s, "collective: --cluster is required");
    const auto sizes = read_sizes(sizes_);
    if (!sizes) return usage_error(s, "collective: " + sizes.error().front().text);
    const auto given = read_cluster(cluster_);
    if (!given) return refused(s, given.error());
    const bool text = cluster_.find('{') != std::string::npos && !std::filesystem::exists(cluster_);
    const std::string file = text ? "--cluster" : cluster_;
    const auto document = surround(*given, file, text ? std::string() : std::filesystem::path(cluster_).parent_path().string(), overrides());
    if (!document) return refused(s, document.error());

    simulate::CollectiveQuery query{*kind, 0, *sizes, gpus_per_thread_.value_or(1)};
    const Value& nodes = document->value.at("cluster").at("nodes");
    const Value& node = document->value.at("cluster").at("node");
    const Value& used = document->value.at("cluster").at("gpus_per_node");
    const std::int64_t per_node = used.is_null() ? node.at("gpus").as_int() : used.as_int();
    query.ranks = ranks_.value_or(checked_mul(nodes.as_int(), per_node).value_or(INT64_MAX));
    if (!compare_.empty()) {
      const std::string base = text ? std::string() : std::filesystem::path(cluster_).parent_path().string();
      const search::Variant variant = [&](std::span<const document::Override> more) {
        std::vector<document::Override> all = overrides();
        all.insert(all.end(), more.begin(), more.end());
        return surround(*given, file, base, all);
      };
      const auto compared = compare_log(compare_, query, ranks_, gpus_per_thread_, variant);
      if (!compared) return refused(s, compared.error());
      print_warnings(s, output_, {}, file);
      Value table = json(compared->predicted(), *document);
      table.set("comparison", compared->json());
      return deliver(s, output_, table, compared->text());
    }
    const auto rows = simulate::collectives(*document, query);
    if (!rows) return refused(s, rows.error());
    print_warnings(s, output_, {}, file);
    return deliver(s, output_, json(*rows, *document), table(*rows, *document));
  }

 private:
  std::vector<document::Override> overrides() const {
    std::vector<document::Override> out;
    if (!version_.empty()) out.push_back({"/cluster/nccl/version", document::dump(Value(version_), -1)});
    if (!calibration_.empty()) {
      Value::Array names;
      for (const std::string& name : calibration_) names.emplace_back(name);
      // One name alone stays a name: "none" is one only by itself.
      out.push_back({"/calibration", document::dump(names.size() == 1 ? names.front() : Value(std::move(names)), -1)});
    }
    return out;
  }

  Value json(const std::vector<simulate::CollectiveRow>& rows, const document::Document& d) const {
    constexpr double kUncalibrated = 1.3;  // design 5.4: a band that nothing has calibrated is /1.3 … x1.3
    Value::Array list;
    for (const simulate::CollectiveRow& r : rows) {
      const double us = r.time.value() * 1e6;
      list.push_back(Value::Object{{"kind", kind_}, {"ranks", r.ranks}, {"nodes", r.nodes}, {"bytes", r.bytes}, {"time_us", us},
                                   {"low_us", us / kUncalibrated}, {"high_us", us * kUncalibrated}, {"algbw_gb_per_s", r.algbw.value() / 1e9},
                                   {"busbw_gb_per_s", r.busbw.value() / 1e9}, {"algorithm", to_string(r.choice.algorithm)},
                                   {"protocol", to_string(r.choice.protocol)}, {"channels", r.choice.channels}, {"limited_by", r.limited_by},
                                   {"origin", to_string(r.origin)}});
      Value nearest;
      if (r.nearest) {
        nearest = Value::Object{{"bytes", r.nearest->bytes}, {"time_us", r.nearest->time_us}, {"busbw_gb_per_s", measured_busbw(r)}, {"origin", to_string(r.nearest->origin)}};
      }
      list.back().set("nearest", std::move(nearest));
    }
    return Value::Object{{"schema", "orrery/collective-table/1"}, {"cluster", d.value.at("cluster")}, {"rows", std::move(list)}};
  }

  /// nccl-tests' columns first, so that a log can be set beside it; what decided each row after them. Nothing runs in place.
  std::string table(const std::vector<simulate::CollectiveRow>& rows, const document::Document& d) const {
    const Value& c = d.value.at("cluster");
    std::string text = fmt::format("# {} on {} ranks of {} x {}, NCCL {}; predicted, out of place\n", kind_, rows.front().ranks, c.at("nodes").as_int(),
                                   c.at("node").at("name").as_string(), version(d));
    text += fmt::format("#{:>13}{:>14}{:>10}{:>9}{:>9}  {}\n", "size", "count", "time", "algbw", "busbw", "algorithm, protocol, channels, limit, origin; nearest measured (B, us, GB/s)");
    text += fmt::format("#{:>13}{:>14}{:>10}{:>9}{:>9}\n", "(B)", "(float)", "(us)", "(GB/s)", "(GB/s)");
    for (const simulate::CollectiveRow& r : rows) {
      const std::string nearest = r.nearest ? fmt::format("; {:.0f} {:.2f} {:.2f}", r.nearest->bytes, r.nearest->time_us, measured_busbw(r)) : std::string();
      text += fmt::format("{:>14}{:>14}{:>10.2f}{:>9.2f}{:>9.2f}  {} {} {} {} {}{}\n", r.bytes, r.bytes / 4, r.time.value() * 1e6, r.algbw.value() / 1e9,
                          r.busbw.value() / 1e9, to_string(r.choice.algorithm), to_string(r.choice.protocol), r.choice.channels, r.limited_by, to_string(r.origin), nearest);
    }
    double sum = 0;
    for (const simulate::CollectiveRow& r : rows) sum += r.busbw.value() / 1e9;
    return text + fmt::format("# average bus bandwidth {:.3f} GB/s\n", sum / static_cast<double>(rows.size()));
  }

  /// Of the nearest measurement.
  static double measured_busbw(const simulate::CollectiveRow& r) { return r.nearest->bytes / (r.nearest->time_us * 1e3) * (r.busbw.value() / r.algbw.value()); }

  static std::string version(const document::Document& d) {
    const Value& own = d.value.at("cluster").at("nccl");
    if (!own.is_null() && own.at("version").is_string()) return own.at("version").as_string();
    return d.value.at("stack").at("nccl_version").as_string();
  }

  std::string kind_, cluster_, sizes_ = "8:16G", version_, compare_;
  std::optional<std::int64_t> ranks_, gpus_per_thread_;
  std::vector<std::string> calibration_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_collective() { return std::make_unique<Collective>(); }

}  // namespace orrery::cli
