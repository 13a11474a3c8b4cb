#pragma once
// A Hugging Face config.json as its class in transformers reads it: a member that is absent has the class's default, and a name may stand
// for another (attribute_map). What is read is remembered, so that nothing is passed over in silence.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "document/problems.hpp"
#include "orrery/document/value.hpp"

namespace orrery::document::hugging_face {

/// Names of one member, the first that is present counts.
using Names = std::initializer_list<std::string_view>;

class Config {
 public:
  Config(const Value& value, Place place, Problems& problems) : value_(value), place_(std::move(place)), problems_(problems) {}

  /// Sizes and counts, at least 1 (or `low`).
  std::int64_t size(Names names, std::int64_t otherwise, std::int64_t low = 1);
  /// None where absent or null.
  std::optional<std::int64_t> maybe_size(Names names, std::int64_t low = 1);
  double number(Names names, double otherwise);
  std::optional<double> maybe_number(Names names);
  bool flag(Names names, bool otherwise);
  std::string text(Names names, std::string_view otherwise);
  /// The member itself, null where absent.
  const Value& raw(Names names);
  [[nodiscard]] bool states(std::string_view name) const { return value_.find(name) != nullptr; }
  /// A member that is an object of its own, under the same rules.
  Config inside(std::string_view name);

  /// Activation functions by their names in transformers/activations.py.
  std::string activation(Names names, std::string_view otherwise);

  /// The model differs from what orrery/model/1 can say in this member.
  void refuse(std::string_view member, std::string text);
  /// A member whose only known value is the one that costs nothing.
  void expect_off(std::string_view name, std::string_view what);
  /// The member has an effect that is not counted.
  void warn(std::string_view member, std::string text);
  /// Reads members that cannot change shapes, FLOPs or bytes.
  void ignore(Names names);
  /// Warns of each member that nothing has read.
  void warn_unread();
  [[nodiscard]] const Place& place() const { return place_; }

 private:
  const Value* find(Names names);
  void expected(std::string_view name, std::string_view what, const Value& found_value);

  const Value& value_;
  Place place_;
  Problems& problems_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace orrery::document::hugging_face
