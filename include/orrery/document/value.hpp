#pragma once
// A JSON value without a JSON library in the header: what documents are read into and reports are written from.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "orrery/base/result.hpp"

namespace orrery::document {

/// Null, bool, 64-bit integer, number, string, array or object. Objects keep their order; keys are unique.
class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::vector<std::pair<std::string, Value>>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool v) : data_(v) {}
  Value(int v) : data_(static_cast<std::int64_t>(v)) {}
  Value(std::int64_t v) : data_(v) {}
  Value(double v) : data_(v) {}
  Value(const char* v) : data_(std::string(v)) {}
  Value(std::string_view v) : data_(std::string(v)) {}
  Value(std::string v) : data_(std::move(v)) {}
  Value(Array v) : data_(std::move(v)) {}
  Value(Object v) : data_(std::move(v)) {}

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(data_); }
  [[nodiscard]] bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  [[nodiscard]] bool is_number() const { return is_int() || std::holds_alternative<double>(data_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(data_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(data_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(data_); }

  // Each requires the kind it names (an InternalError otherwise): a validated document has it.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  [[nodiscard]] double as_double() const;  ///< of an integer too
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const Array& items() const;
  [[nodiscard]] Array& items();
  [[nodiscard]] const Object& members() const;
  [[nodiscard]] Object& members();

  /// The member of an object, or nullptr where it is absent or this is no object.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  /// The member of an object; the shared null value where it is absent. at("a").at("b") never throws on a validated document.
  [[nodiscard]] const Value& at(std::string_view key) const;
  /// Sets or appends a member; turns null into an object.
  Value& set(std::string_view key, Value value);
  /// Removes a member if present.
  void erase(std::string_view key);
  /// The value behind an RFC 6901 pointer ("" is this), or nullptr.
  [[nodiscard]] const Value* resolve(std::string_view pointer) const;
  [[nodiscard]] Value* resolve(std::string_view pointer);

  bool operator==(const Value&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

/// Parses JSON with // comments. Refuses (with line and column) what is empty, truncated, not UTF-8, nested deeper than 64, longer than
/// 64 MiB, holds a duplicate member, or a number that no double holds. Integers outside int64 are refused as "out of range".
Result<Value> parse(std::string_view text, const std::string& file);
/// JSON text; indent < 0 puts everything on one line. Doubles are printed shortest-round-trip; NaN and infinity are asserted away.
std::string dump(const Value& value, int indent = 1);

}  // namespace orrery::document
