#pragma once
// Expressions over named values: constraints of a sweep, filters of its results.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/document/value.hpp"

namespace orrery::search {

/// "parallelism.tp * parallelism.pp <= 64 && training.recompute == \"none\"". Numbers, strings, true and false; + - * / ^, comparisons, && || !, (a) ? b : c,
/// min, max, abs, floor, ceil, log2 and the like. Names are paths with dots. By muParserX.
class Expression {
 public:
  /// Diagnostics: what is no expression, with the place.
  static Result<Expression> make(std::string text);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }  ///< sorted

  /// Whether it holds. value: of a name; nullptr where there is none. A name whose value is null is false in a comparison with anything.
  /// Diagnostics: a name without a value; an operator on values that it does not take; a result that is neither true, false nor a number.
  [[nodiscard]] Result<bool> holds(const std::function<const document::Value*(const std::string&)>& value) const;

 private:
  std::string text_;
  std::vector<std::string> names_;
};

}  // namespace orrery::search
