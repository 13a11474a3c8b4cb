// orrery calibrate check: the gate between two sets of measurements of one machine.
#include <algorithm>
#include <filesystem>
#include <ostream>

#include <fmt/format.h>

#include "calibrate.hpp"
#include "orrery/calibration/gate.hpp"

namespace orrery::cli {

namespace {

using calibration::Change;
using calibration::GateResult;
using calibration::KeyChange;
using document::Value;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

bool is_failure(Change c) { return c == Change::kSlower || c == Change::kLost || c == Change::kBimodal || c == Change::kDrift; }

std::string sentence(const KeyChange& k) {
  std::string text;
  switch (k.change) {
    case Change::kSlower:
    case Change::kFaster:
      text = fmt::format("{:.4g} us -> {:.4g} us, {:+.1f} %", k.baseline_us, k.new_us, 100 * (k.ratio - 1));
      if (k.p < 1) text += fmt::format(" ({:+.1f} to {:+.1f} %, p {:.2g})", 100 * (k.low - 1), 100 * (k.high - 1), k.p);
      break;
    default: text = std::string(to_string(k.change));
  }
  return k.note.empty() ? text : text + ": " + k.note;
}

class Check : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.positional("BASELINE", baseline_, "measurements that hold");
    arguments.positional("NEW", fresh_, "measurements to hold against them");
    options_.define(arguments, false);
    arguments.text("--history", history_, "a folder of earlier sets, oldest first by name: how much a key moves by itself, and drift", "FOLDER");
    arguments.flag("--record", record_, "where the gate passes, put NEW into the history");
    arguments.text("--junit", junit_, "write JUnit XML to FILE", "FILE");
    arguments.flag("--annotations", annotations_, "print GitHub's annotations for what failed and what got faster");
    arguments.number("--seed", seed_, 0, std::int64_t{1} << 53, "of resamples");
    arguments.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
    arguments.flag("--quiet", output_.quiet, "no warnings");
  }

  int run(Streams& s) override {
    const auto before = read(s, baseline_), after = read(s, fresh_);
    Diagnostics problems;
    for (const auto* set : {&before, &after})
      if (!*set) problems.insert(problems.end(), set->error().begin(), set->error().end());
    if (!problems.empty()) return refused(s, problems);
    calibration::GateOptions options;
    options.seed = static_cast<std::uint64_t>(seed_);
    if (!history_.empty()) {
      auto sets = read_history(s);
      if (!sets) return refused(s, sets.error());
      options.history = std::move(*sets);
    }
    const GateResult result = calibration::gate(*before, *after, options);
    if (!result.unusable.empty()) {
      Diagnostics why;
      for (const std::string& u : result.unusable) why.push_back({fresh_, "/gpu", u});
      return refused(s, why);
    }
    if (!junit_.empty())
      if (const auto written = document::write_file(junit_, junit(result)); !written) return refused(s, written.error());
    if (record_ && !history_.empty() && !result.failed())
      if (const int code = record(s, *after, options.history.size()); code != kSuccess) return code;
    if (const int code = deliver(s, output_, json(result), text(result)); code != kSuccess) return code;
    return result.failed() ? kNo : kSuccess;
  }

 private:
  Result<calibration::MeasurementSet> read(Streams& s, const std::string& file) const {
    MeasurementOptions one = options_;
    one.files = {file};
    auto set = one.read(s, output_.quiet);
    if (set && !one.gpu.empty() && set->gpu.empty()) set->gpu = one.gpu;
    return set;
  }

  Result<std::vector<calibration::MeasurementSet>> read_history(Streams& s) const {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<std::string> files;
    for (fs::directory_iterator it(history_, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".json") files.push_back(it->path().string());
    std::sort(files.begin(), files.end());
    std::vector<calibration::MeasurementSet> sets;
    for (const std::string& file : files) {
      auto set = read(s, file);
      if (!set) return fail(std::move(set.error()));
      sets.push_back(std::move(*set));
    }
    return sets;
  }

  int record(Streams& s, const calibration::MeasurementSet& set, std::size_t runs) const {
    std::error_code error;
    std::filesystem::create_directories(history_, error);
    const auto written = document::write_file(fmt::format("{}/{:06}.json", history_, runs), document::dump(calibration::to_value(set), -1) + "\n");
    return written ? kSuccess : refused(s, written.error());
  }

  static Value json(const GateResult& r) {
    Value::Array keys, environment;
    for (const std::string& e : r.environment) environment.emplace_back(e);
    for (const KeyChange& k : r.keys) {
      Value one = Value::Object{{"key", k.key}, {"change", std::string(to_string(k.change))}};
      if (k.baseline_us > 0) one.set("baseline_us", k.baseline_us);
      if (k.new_us > 0) one.set("new_us", k.new_us);
      if (k.baseline_us > 0 && k.new_us > 0) {
        one.set("ratio", k.ratio);
        one.set("p", k.p);
        one.set("low", k.low);
        one.set("high", k.high);
        one.set("threshold", k.threshold);
      }
      if (!k.note.empty()) one.set("note", k.note);
      keys.push_back(std::move(one));
    }
    return Value::Object{{"schema", "orrery/calibration-diff/1"}, {"passed", !r.failed()}, {"environment", std::move(environment)}, {"keys", std::move(keys)}};
  }

  std::string text(const GateResult& r) const {
    std::string out;
    if (!r.environment.empty()) {
      out += "environment\n";
      for (const std::string& e : r.environment) out += "  " + e + "\n";
    }
    for (const Change c : {Change::kLost, Change::kSlower, Change::kBimodal, Change::kDrift, Change::kFaster, Change::kNew, Change::kTooFew}) {
      const std::size_t n = r.count(c);
      if (n == 0) continue;
      out += fmt::format("{} {}\n", n, to_string(c));
      std::size_t shown = 0;
      for (const KeyChange& k : r.keys)
        if (k.change == c && shown++ < kShown) out += fmt::format("  {}: {}\n", k.key, sentence(k));
      if (n > kShown) out += fmt::format("  and {} more\n", n - kShown);
    }
    out += fmt::format("{}: {} keys, {} the same\n", r.failed() ? "failed" : "passed", r.keys.size(), r.count(Change::kSame));
    if (annotations_)
      for (const KeyChange& k : r.keys)
        if (is_failure(k.change) || k.change == Change::kFaster)
          out += fmt::format("::{} title=calibration {}::{}: {}\n", is_failure(k.change) ? "error" : "notice", to_string(k.change), k.key, sentence(k));
    return out;
  }

  static std::string junit(const GateResult& r) {
    std::size_t failures = 0;
    for (const KeyChange& k : r.keys) failures += is_failure(k.change) ? std::size_t{1} : std::size_t{0};
    std::string out = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"orrery calibrate check\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n", r.keys.size(), failures,
                                  r.count(Change::kTooFew));
    for (const KeyChange& k : r.keys) {
      const std::string head = fmt::format(" <testcase classname=\"calibration.{}\" name=\"{}\" time=\"{:.9f}\"", escaped(k.key.substr(0, k.key.find(' '))), escaped(k.key), k.new_us * 1e-6);
      if (is_failure(k.change)) out += head + fmt::format("><failure message=\"{}\"/></testcase>\n", escaped(sentence(k)));
      else if (k.change == Change::kTooFew) out += head + fmt::format("><skipped message=\"{}\"/></testcase>\n", escaped(k.note));
      else out += head + "/>\n";
    }
    return out + "</testsuite>\n";
  }

  static constexpr std::size_t kShown = 20;
  std::string baseline_, fresh_, history_, junit_;
  MeasurementOptions options_;
  bool record_ = false, annotations_ = false;
  std::int64_t seed_ = 1;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_calibrate_check() { return std::make_unique<Check>(); }

}  // namespace orrery::cli
