#pragma once
// Many points of one scenario. Points are never listed: each is decoded from its index, so a definition of a million starts at once.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/search/expression.hpp"
#include "orrery/search/search.hpp"

namespace orrery::search {

/// Values that a member of the scenario takes in turn.
struct Axis {
  std::string path;                 ///< as --set takes it
  std::vector<std::string> values;  ///< JSON text, or a string
  /// Anything between two numbers, for samples only; values is empty then.
  struct Between {
    double low = 0, high = 0;
    bool logarithmic = false;
  };
  std::optional<Between> between;
  std::optional<Expression> condition;  ///< where it is false the member stays as it is written
  bool zipped = false;                  ///< moves with the axis before it
};

/// "PATH=VALUES", or "PATH=VALUES if EXPRESSION". VALUES: a list a,b,c (JSON texts may hold commas within brackets and quotes); a..b or
/// a..b..step; 2^4..2^11, powers of the base; a..b/n, n numbers at equal steps; a~b or log:a~b, anything between, for samples.
/// Diagnostics: what is malformed, empty, repeated, or over a million values.
Result<Axis> read_axis(std::string_view text);

enum class Sampling : std::uint8_t { kGrid, kRandom, kLatinHypercube };

/// Axes in the order given; on a grid the last one moves fastest.
class Sweep {
 public:
  /// Diagnostics: no axis; a path or a value given twice; a zipped axis of another length than the one before it, or first; a condition on what is no
  /// axis; Between on a grid; over 2^62 points.
  static Result<Sweep> grid(std::vector<Axis> axes);
  /// `samples` points of the axes' values, each drawn from (seed, path, index): independently, or as a Latin hypercube (McKay, Beckman and Conover,
  /// Technometrics 21, 1979): every axis is cut into `samples` equal parts, each of which is used once.
  static Result<Sweep> sample(std::vector<Axis> axes, Sampling sampling, std::uint64_t samples, std::uint64_t seed);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }

  struct Point {
    std::vector<document::Override> sets;  ///< in the order of the axes; without those whose condition is false
    const Axis* same = nullptr;            ///< of a grid: its condition is false, and another value of it stands for this point too
  };
  /// Diagnostics: a condition that cannot be evaluated.
  [[nodiscard]] Result<Point> at(std::uint64_t index) const;

 private:
  struct Group {  ///< an axis and those zipped to it
    std::size_t first = 0, count = 0;
    std::uint64_t values = 0;
    std::vector<std::uint32_t> order;  ///< Latin hypercube: part of sample i
  };
  static Result<Sweep> grouped(std::vector<Axis> axes, bool grid);
  [[nodiscard]] std::uint64_t which(const Group& group, std::uint64_t index, std::uint64_t& rest) const;
  [[nodiscard]] double drawn(const Group& group, std::uint64_t index) const;

  std::vector<Axis> axes_;
  std::vector<Group> groups_;
  Sampling sampling_ = Sampling::kGrid;
  std::uint64_t size_ = 0, seed_ = 0;
};

/// kExcluded: by a constraint, or because a condition makes it the same as another point.
enum class PointOutcome : std::uint8_t { kFits, kDoesNotFit, kRefused, kExcluded };
std::string_view to_string(PointOutcome o);

/// The answer at one point.
struct PointRow {
  std::uint64_t index = 0;
  PointOutcome outcome = PointOutcome::kRefused;
  std::string reason;        ///< where it has no times: grouped by this; numbers of its own included
  document::Value json;      ///< orrery/sweep-row/1: nothing in it depends on the machine, the time of day or the number of threads
};

/// The scenario with overrides on top.
using Load = std::function<Result<document::Document>(std::span<const document::Override>)>;

/// One point. constraints: expressions over the resolved scenario, and the axes' own values.
PointRow run_point(const Sweep& sweep, std::span<const Expression> constraints, std::uint64_t index, const Load& load, const simulate::Options& options);

/// "/a/b: text", or the text alone.
std::string reason_of(const std::string& pointer, const std::string& text);
/// "/a/b" and "a.b" as "a.b".
std::string dotted(std::string_view path);
/// The value of a dotted path, or nullptr.
const document::Value* find_path(const document::Value& value, std::string_view path);

/// A reason with its numbers taken out, so that "32 stages are more than 16 layers" and "64 stages …" are counted together.
std::string reason_class(std::string_view reason);

}  // namespace orrery::search
