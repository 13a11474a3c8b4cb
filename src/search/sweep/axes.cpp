// What --vary says, and points from their indices.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "orrery/base/random.hpp"
#include "orrery/search/sweep.hpp"

namespace orrery::search {

namespace {

constexpr std::size_t kMostValues = 1'000'000;
constexpr std::uint64_t kMostPoints = std::uint64_t{1} << 62;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

/// At commas outside brackets and quotes. nullopt: a bracket or quote that never closes.
std::optional<std::vector<std::string>> split(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      parts.back() += c;
      parts.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (!quoted && depth == 0 && c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (quoted || depth != 0) return std::nullopt;
  return parts;
}

using Values = Result<std::vector<std::string>>;

Values too_many(std::string_view text) { return fail("", "", fmt::format("{}: more than {} values", text, kMostValues)); }

/// b^m..b^n
Values powers(std::string_view text, std::string_view from, std::string_view to) {
  const auto parse = [](std::string_view part) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
    const std::size_t hat = part.find('^');
    if (hat == std::string_view::npos) return std::nullopt;
    const auto base = number<std::int64_t>(part.substr(0, hat)), exponent = number<std::int64_t>(part.substr(hat + 1));
    if (!base || !exponent) return std::nullopt;
    return std::pair{*base, *exponent};
  };
  const auto low = parse(from), high = parse(to);
  if (!low || !high || low->first != high->first || low->first < 2 || low->second < 0 || high->second < low->second)
    return fail("", "", fmt::format("{}: expected powers of one whole base from 2 up, such as 2^4..2^11", text));
  std::vector<std::string> values;
  std::int64_t value = 1;
  for (std::int64_t e = 0; e <= high->second; ++e) {
    if (e >= low->second) values.push_back(fmt::format("{}", value));
    if (e < high->second && __builtin_mul_overflow(value, low->first, &value)) return fail("", "", fmt::format("{}: too large for a 64-bit number", text));
  }
  return values;
}

/// a..b, a..b..step, a..b/n
Values range(std::string_view text, std::string_view from, std::string_view to) {
  if (from.find('^') != std::string_view::npos) return powers(text, from, to);
  if (const std::size_t slash = to.find('/'); slash != std::string_view::npos) {
    const auto low = number<double>(from), high = number<double>(to.substr(0, slash));
    const auto count = number<std::int64_t>(to.substr(slash + 1));
    if (!low || !high || !count || *count < 2 || !(*low < *high)) return fail("", "", fmt::format("{}: expected a..b/n: n numbers, two at least, at equal steps from a up to b", text));
    if (static_cast<std::size_t>(*count) > kMostValues) return too_many(text);
    std::vector<std::string> values;
    for (std::int64_t i = 0; i < *count; ++i) {
      const double t = static_cast<double>(i) / static_cast<double>(*count - 1);
      values.push_back(fmt::format("{}", *low * (1 - t) + *high * t));
    }
    return values;
  }
  std::int64_t step = 1;
  if (const std::size_t dots = to.find(".."); dots != std::string_view::npos) {
    const auto given = number<std::int64_t>(to.substr(dots + 2));
    if (!given || *given < 1) return fail("", "", fmt::format("{}: the step is no whole number from 1 up", text));
    step = *given;
    to = to.substr(0, dots);
  }
  const auto low = number<std::int64_t>(from), high = number<std::int64_t>(to);
  if (!low || !high || *high < *low)
    return fail("", "", fmt::format("{}: expected whole numbers a..b with a <= b, a..b..step, powers 2^4..2^11, or a..b/n for n numbers at equal steps", text));
  if ((static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(*low)) / static_cast<std::uint64_t>(step) >= kMostValues) return too_many(text);
  std::vector<std::string> values;
  for (std::int64_t v = *low;; v += step) {
    values.push_back(fmt::format("{}", v));
    if (*high - v < step) break;
  }
  return values;
}

bool starts_number(std::string_view text) { return !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')); }

}  // namespace

Result<Axis> read_axis(std::string_view text) {
  const std::string all(text);
  Axis axis;
  if (const std::size_t where = text.rfind(" if "); where != std::string_view::npos) {
    auto condition = Expression::make(std::string(trimmed(text.substr(where + 4))));
    if (!condition) return fail(condition.error());
    axis.condition = std::move(*condition);
    text = text.substr(0, where);
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return fail("", "", fmt::format("--vary {}: expected PATH=VALUES", all));
  axis.path = std::string(trimmed(text.substr(0, equals)));
  std::string_view values = trimmed(text.substr(equals + 1));

  const bool logarithmic = values.starts_with("log:");
  const std::string_view between = logarithmic ? values.substr(4) : values;
  if (const std::size_t tilde = between.find('~'); tilde != std::string_view::npos && starts_number(between)) {
    const auto low = number<double>(between.substr(0, tilde)), high = number<double>(between.substr(tilde + 1));
    if (!low || !high || !(*low < *high) || (logarithmic && !(*low > 0)))
      return fail("", "", fmt::format("--vary {}: expected a~b with a < b{}", all, logarithmic ? ", both above 0" : ""));
    axis.between = Axis::Between{*low, *high, logarithmic};
    return axis;
  }
  const auto parts = split(values);
  if (!parts) return fail("", "", fmt::format("--vary {}: a bracket or a quote is not closed", all));
  for (const std::string& part : *parts) {
    const std::string_view value = trimmed(part);
    if (value.empty()) return fail("", "", fmt::format("--vary {}: a value is empty", all));
    const std::size_t dots = value.find("..");
    if (dots == std::string_view::npos || !starts_number(value)) {
      axis.values.emplace_back(value);
      continue;
    }
    const Values more = range(value, value.substr(0, dots), value.substr(dots + 2));
    if (!more) return fail("", "", fmt::format("--vary {}: {}", axis.path, more.error()[0].text));
    axis.values.insert(axis.values.end(), more->begin(), more->end());
    if (axis.values.size() > kMostValues) return fail("", "", fmt::format("--vary {}: more than {} values", axis.path, kMostValues));
  }
  return axis;
}

Result<Sweep> Sweep::grouped(std::vector<Axis> axes, bool grid) {
  if (axes.empty()) return fail("", "", "sweep: nothing varies; give --vary PATH=VALUES");
  Sweep sweep;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    for (std::size_t j = 0; j < i; ++j)
      if (dotted(axes[j].path) == dotted(a.path)) return fail("", "", fmt::format("{} is varied twice", a.path));
    if (a.condition) {
      for (const std::string& name : a.condition->names())
        if (std::none_of(axes.begin(), axes.end(), [&](const Axis& other) { return dotted(other.path) == name; }))
          return fail("", "", fmt::format("{}: its condition names {}, which does not vary", a.path, name));
    }
    if (a.between && grid) return fail("", "", fmt::format("{}: anything between two numbers is for samples; give --sample, or a..b/n", a.path));
    if (a.zipped && i == 0) return fail("", "", fmt::format("--zip {}: no --vary stands before it", a.path));
    if (a.zipped) {
      Group& group = sweep.groups_.back();
      const Axis& head = axes[group.first];
      if (head.between || a.between) return fail("", "", fmt::format("--zip {}: only lists of values can be zipped", a.path));
      if (a.values.size() != head.values.size())
        return fail("", "", fmt::format("--zip {}: {} values beside the {} of {}", a.path, a.values.size(), head.values.size(), head.path));
      ++group.count;
      continue;
    }
    sweep.groups_.push_back({i, 1, a.values.size(), {}});
  }
  // A value given twice makes the same point twice.
  for (const Group& group : sweep.groups_) {
    if (group.count > 1) continue;
    std::vector<std::string> sorted = axes[group.first].values;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      return fail("", "", fmt::format("{}: {} is given twice", axes[group.first].path, *twice));
  }
  sweep.axes_ = std::move(axes);
  return sweep;
}

Result<Sweep> Sweep::grid(std::vector<Axis> axes) {
  auto sweep = grouped(std::move(axes), true);
  if (!sweep) return sweep;
  sweep->size_ = 1;
  for (const Group& group : sweep->groups_)
    if (__builtin_mul_overflow(sweep->size_, group.values, &sweep->size_) || sweep->size_ > kMostPoints) return fail("", "", "sweep: more than 2^62 points");
  return sweep;
}

Result<Sweep> Sweep::sample(std::vector<Axis> axes, Sampling sampling, std::uint64_t samples, std::uint64_t seed) {
  auto sweep = grouped(std::move(axes), false);
  if (!sweep) return sweep;
  sweep->sampling_ = sampling;
  sweep->size_ = samples;
  sweep->seed_ = seed;
  if (sampling != Sampling::kLatinHypercube) return sweep;
  for (Group& group : sweep->groups_) {  // parts in the order of a draw per part: a random permutation
    const std::string& path = sweep->axes_[group.first].path;
    group.order.resize(samples);
    std::iota(group.order.begin(), group.order.end(), 0U);
    std::vector<std::uint64_t> keys(samples);
    for (std::uint64_t i = 0; i < samples; ++i) keys[i] = random_bits(seed, "hypercube " + path, i);
    std::sort(group.order.begin(), group.order.end(), [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
  }
  return sweep;
}

double Sweep::drawn(const Group& group, std::uint64_t index) const {
  const double u = random_uniform(seed_, "sample " + axes_[group.first].path, index);
  if (sampling_ == Sampling::kRandom) return u;
  return std::min((static_cast<double>(group.order[index]) + u) / static_cast<double>(size_), std::nextafter(1.0, 0.0));
}

std::uint64_t Sweep::which(const Group& group, std::uint64_t index, std::uint64_t& rest) const {
  if (sampling_ != Sampling::kGrid) return std::min(static_cast<std::uint64_t>(drawn(group, index) * static_cast<double>(group.values)), group.values - 1);
  const std::uint64_t value = rest % group.values;
  rest /= group.values;
  return value;
}

Result<Sweep::Point> Sweep::at(std::uint64_t index) const {
  std::vector<std::string> texts(axes_.size());
  std::vector<std::uint64_t> chosen(axes_.size(), 0);
  std::uint64_t rest = index;
  for (std::size_t g = groups_.size(); g-- > 0;) {
    const Group& group = groups_[g];
    if (const auto& between = axes_[group.first].between) {
      const double u = drawn(group, index);
      texts[group.first] = fmt::format("{}", between->logarithmic ? between->low * std::pow(between->high / between->low, u) : between->low + (between->high - between->low) * u);
      continue;
    }
    const std::uint64_t value = which(group, index, rest);
    for (std::size_t a = group.first; a < group.first + group.count; ++a) {
      texts[a] = axes_[a].values[value];
      chosen[a] = group.count == 1 && sampling_ == Sampling::kGrid ? value : 0;
    }
  }

  std::vector<document::Value> values;  // as --set reads them
  values.reserve(axes_.size());
  for (const std::string& text : texts) {
    const auto json = document::parse(text, "");
    values.push_back(json ? *json : document::Value(text));
  }
  const auto value_of = [&](const std::string& name) -> const document::Value* {
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (dotted(axes_[a].path) == name) return &values[a];
    return nullptr;
  };
  Point point;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].condition) {
      const auto holds = axes_[a].condition->holds(value_of);
      if (!holds) return fail(holds.error());
      if (!*holds) {
        if (chosen[a] != 0 && point.same == nullptr) point.same = &axes_[a];
        continue;
      }
    }
    point.sets.push_back({axes_[a].path, std::move(texts[a])});
  }
  return point;
}

}  // namespace orrery::search
