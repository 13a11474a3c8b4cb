// orrery sweep show: a store's rows, sorted, filtered, as text, lines of JSON or CSV; two numbers against each other with their Pareto front.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common.hpp"
#include "orrery/base/text.hpp"
#include "orrery/report/report.hpp"
#include "orrery/search/store.hpp"
#include "sweep.hpp"

namespace orrery::cli {

namespace {

using document::Value;

struct Key {
  std::string name;
  bool descending = false;
};

/// A number, or none.
std::optional<double> number(const Value& row, const std::string& name) {
  const Value* v = row_member(row, name);
  if (v == nullptr || !v->is_number()) return std::nullopt;
  return v->as_double();
}

/// Rows that no other beats in both, in order of the first.
std::vector<std::size_t> front(const std::vector<std::pair<double, double>>& points, bool less_x, bool less_y) {
  std::vector<std::size_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto x = [&](std::size_t i) { return less_x ? points[i].first : -points[i].first; };
  const auto y = [&](std::size_t i) { return less_y ? points[i].second : -points[i].second; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x(a) != x(b) ? x(a) < x(b) : y(a) < y(b); });
  std::vector<std::size_t> kept;
  double best = INFINITY;
  for (const std::size_t i : order)
    if (y(i) < best) {
      best = y(i);
      kept.push_back(i);
    }
  return kept;
}

/// '.' a point, '*' one on the front. Axes are linear.
std::string plot(const std::vector<std::pair<double, double>>& points, const std::vector<std::size_t>& on_front, const std::string& x_name, const std::string& y_name) {
  constexpr std::size_t kWidth = 64, kHeight = 18;
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (const auto& [x, y] : points) {
    x0 = std::min(x0, x), x1 = std::max(x1, x);
    y0 = std::min(y0, y), y1 = std::max(y1, y);
  }
  std::vector<std::string> cells(kHeight, std::string(kWidth, ' '));
  const auto place = [&](std::size_t i, char c) {
    const auto at = [](double v, double low, double high, std::size_t n) {
      return high > low ? static_cast<std::size_t>(std::lround((v - low) / (high - low) * static_cast<double>(n - 1))) : 0;
    };
    cells[kHeight - 1 - at(points[i].second, y0, y1, kHeight)][at(points[i].first, x0, x1, kWidth)] = c;
  };
  for (std::size_t i = 0; i < points.size(); ++i) place(i, '.');
  for (const std::size_t i : on_front) place(i, '*');
  std::string out = fmt::format("{}\n", y_name);
  for (std::size_t line = 0; line < kHeight; ++line) {
    const std::string label = line == 0 ? fmt::format("{:.4g}", y1) : line + 1 == kHeight ? fmt::format("{:.4g}", y0) : "";
    std::string row = fmt::format("{:>10} |{}", label, cells[line]);
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  const std::string low = fmt::format("{:.4g}", x0), high = fmt::format("{:.4g}", x1);
  return out + fmt::format("{:>10} +{}\n{:>12}{}{:>{}}\n{:>12}{}\n", "", std::string(kWidth, '-'), "", low, high, kWidth - low.size(), "", x_name);
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

class Show : public Verb {
 public:
  void define(Arguments arguments) override {
    arguments.positional("FILE", file_, "a store that orrery sweep wrote");
    arguments.text("--sort", sort_, "by this member; -NAME turns the order round", "NAME");
    arguments.text("--where", where_, "only rows where EXPR holds", "EXPR");
    arguments.number("--top", top_, 1, INT64_MAX, "so many rows (default 20; with --json and --csv all)");
    arguments.text("--pareto", pareto_, "only rows that no other beats in both, drawn", "X,Y");
    arguments.text("--csv", csv_, "write CSV to FILE, or to standard output with -", "FILE");
    arguments.text("--json", json_, "write lines of JSON to FILE, or to standard output with -", "FILE");
    arguments.number("--report", report_, 0, INT64_MAX, "the whole report of one point, simulated again");
  }

  int run(Streams& s) override {
    const auto store = search::Store::read(file_);
    if (!store) return refused(s, store.error());
    if (report_) return whole_report(s, *store);
    auto rows = selected(*store);
    if (!rows) return refused(s, rows.error());

    std::string picture;
    if (!pareto_.empty()) {
      auto drawn = keep_front(*rows);
      if (!drawn) return refused(s, drawn.error());
      picture = std::move(*drawn) + "\n";
    }
    if (!sort_.empty())
      if (const auto sorted = sort(*rows); !sorted) return refused(s, sorted.error());
    const std::size_t all = rows->size();
    const bool files = !csv_.empty() || !json_.empty();
    if (top_ || !files) rows->resize(std::min(all, static_cast<std::size_t>(top_.value_or(20))));

    if (!json_.empty()) {
      std::string lines;
      for (const Value& row : *rows) lines += document::dump(row, -1) + "\n";
      if (json_ == "-") return print(s, lines);
      if (const auto written = document::write_file(json_, lines); !written) return refused(s, written.error());
    }
    if (!csv_.empty()) {
      const std::string text = csv(*rows);
      if (csv_ == "-") return print(s, text);
      if (const auto written = document::write_file(csv_, text); !written) return refused(s, written.error());
    }
    if (files) return kSuccess;
    std::string text = picture + rows_table(*rows);
    if (rows->size() < all) text += fmt::format("and {} more; --top {} shows all\n", all - rows->size(), all);
    return print(s, text);
  }

 private:
  Result<std::vector<Value>> selected(const search::Store& store) const {
    std::optional<search::Expression> filter;
    if (!where_.empty()) {
      auto e = search::Expression::make(where_);
      if (!e) return fail(e.error());
      filter = std::move(*e);
    }
    std::vector<Value> rows;
    Diagnostics problems;
    static const Value kNone;
    const auto read = store.each([&](const std::string& text) {
      auto row = document::parse(text, file_);
      if (!row) {
        problems = row.error();
        return false;
      }
      if (filter) {
        const auto value = [&](const std::string& name) -> const Value* {
          if (const Value* v = row_member(*row, name)) return v;
          return known(name, store) ? &kNone : nullptr;  // a row that has no times has no number of that name
        };
        const auto holds = filter->holds(value);
        if (!holds) {
          problems = holds.error();
          return false;
        }
        if (!*holds) return true;
      }
      rows.push_back(std::move(*row));
      return true;
    });
    if (!read) return fail(read.error());
    if (!problems.empty()) return fail(problems);
    return rows;
  }

  static bool known(const std::string& name, const search::Store& store) {
    const auto& numbers = row_numbers();
    if (std::find(numbers.begin(), numbers.end(), name) != numbers.end() || name == "outcome") return true;
    for (const Value& axis : store.definition().at("axes").items()) {
      const Value& text = axis.find("vary") != nullptr ? axis.at("vary") : axis.at("zip");
      const auto read = search::read_axis(text.is_string() ? text.as_string() : "");
      if (read && search::dotted(read->path) == name) return true;
    }
    return false;
  }

  /// The name, if a row may have a number of it.
  static Result<std::string> member(const std::string& name, const std::vector<Value>& rows) {
    const auto& numbers = row_numbers();
    if (std::find(numbers.begin(), numbers.end(), name) != numbers.end()) return name;
    if (std::any_of(rows.begin(), rows.end(), [&](const Value& r) { return r.at("set").find(name) != nullptr; })) return name;
    std::vector<std::string> names = numbers;
    if (!rows.empty())
      for (const auto& [path, unused] : rows[0].at("set").members()) names.push_back(path);
    return fail("", "", fmt::format("sweep show: a row has no {}; it has {}{}", name, fmt::join(names, ", "), did_you_mean(name, names)));
  }

  Result<std::string> keep_front(std::vector<Value>& rows) const {
    const std::size_t comma = pareto_.find(',');
    if (comma == std::string::npos) return fail("", "", fmt::format("sweep show: --pareto {}: expected two members X,Y", pareto_));
    const auto x = member(pareto_.substr(0, comma), rows), y = member(pareto_.substr(comma + 1), rows);
    if (!x) return x;
    if (!y) return y;
    std::vector<Value> with;
    std::vector<std::pair<double, double>> points;
    for (const Value& row : rows) {
      const auto a = number(row, *x), b = number(row, *y);
      if (!a || !b || row.at("outcome").as_string() != "fits") continue;
      with.push_back(row);
      points.emplace_back(*a, *b);
    }
    if (points.empty()) return fail("", "", "sweep show: --pareto: no row that fits has both");
    const auto kept = front(points, less_is_better(*x), less_is_better(*y));
    std::vector<Value> list;
    for (const std::size_t i : kept) list.push_back(with[i]);
    rows = std::move(list);
    return plot(points, kept, *x, *y);
  }

  Result<bool> sort(std::vector<Value>& rows) const {
    const bool descending = sort_[0] == '-';
    const auto name = member(descending ? sort_.substr(1) : sort_, rows);
    if (!name) return fail(name.error());
    std::stable_sort(rows.begin(), rows.end(), [&](const Value& a, const Value& b) {  // rows without it come last
      const auto x = number(a, *name), y = number(b, *name);
      if (x && y) return descending ? *x > *y : *x < *y;
      if (x || y) return x.has_value();
      const Value* t = row_member(a, *name);
      const Value* u = row_member(b, *name);
      if (t != nullptr && u != nullptr && t->is_string() && u->is_string()) return descending ? t->as_string() > u->as_string() : t->as_string() < u->as_string();
      return false;
    });
    return true;
  }

  static std::string csv(const std::vector<Value>& rows) {
    std::vector<std::string> paths;
    for (const Value& row : rows)
      for (const auto& [path, unused] : row.at("set").members())
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    std::string out;
    for (const std::string& path : paths) out += quoted(path) + ",";
    out += fmt::format("outcome,reason,scenario_hash,{}\n", fmt::join(row_numbers(), ","));
    const auto text = [](const Value* v) { return v == nullptr || v->is_null() ? "" : v->is_string() ? v->as_string() : document::dump(*v, -1); };
    for (const Value& row : rows) {
      for (const std::string& path : paths) out += quoted(text(row.at("set").find(path))) + ",";
      const auto& reasons = row.at("reasons").items();
      out += fmt::format("{},{},{}", row.at("outcome").as_string(), reasons.empty() ? "" : quoted(reasons[0].at("text").as_string()), text(row.find("scenario_hash")));
      for (const std::string& name : row_numbers()) out += "," + text(row.find(name));
      out += "\n";
    }
    return out;
  }

  int whole_report(Streams& s, const search::Store& store) const {
    const Value& d = store.definition();
    std::optional<Value> row;
    const auto read = store.each([&](const std::string& text) {
      auto value = document::parse(text, file_);
      if (value && value->at("index") == Value(*report_)) row = std::move(*value);
      return !row;
    });
    if (!read) return refused(s, read.error());
    if (!row) return usage_error(s, fmt::format("sweep show: {} holds no point {}", file_, *report_));
    std::vector<document::Override> sets;
    for (const Value& o : d.at("set").items()) sets.push_back({o.at("path").as_string(), o.at("value").as_string()});
    for (const auto& [path, value] : row->at("set").members()) sets.push_back({path, document::dump(value, -1)});
    const auto scenario = document::load_scenario_text(d.at("scenario").as_string(), file_, d.at("base_dir").as_string(), sets);
    if (!scenario) return refused(s, scenario.error());
    simulate::Options options;
    options.fold = d.at("fold").as_bool();
    options.strict = d.at("strict").as_bool();
    const auto prediction = search::predict(*scenario, options);
    if (!prediction) return refused(s, prediction.error());
    if (!json_.empty()) return deliver(s, OutputOptions{json_, true, 1}, report::json(subject(*prediction)), json_ == "-" ? "" : report::table(subject(*prediction)));
    return print(s, report::table(subject(*prediction), s.bold));
  }

  std::string file_, sort_, where_, pareto_, csv_, json_;
  std::optional<std::int64_t> top_, report_;
};

}  // namespace

std::unique_ptr<Verb> make_sweep_show() { return std::make_unique<Show>(); }

}  // namespace orrery::cli
