#pragma once
// Reading members of a document that passed its description: a kind is as described, or null where "not stated".
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/units.hpp"
#include "orrery/document/value.hpp"

namespace orrery::cluster {

inline double number(const document::Value& object, std::string_view key, double fallback = 0) {
  const document::Value& v = object.at(key);
  return v.is_null() ? fallback : v.as_double();
}
/// Clamped to int: what is absurd stays absurd for the range checks that follow.
inline int clamped(std::int64_t v) {
  return static_cast<int>(std::clamp<std::int64_t>(v, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}
inline int integer(const document::Value& object, std::string_view key, int fallback = 0) {
  const document::Value& v = object.at(key);
  return v.is_null() ? fallback : clamped(v.as_int());
}
inline bool flag(const document::Value& object, std::string_view key, bool fallback = false) {
  const document::Value& v = object.at(key);
  return v.is_null() ? fallback : v.as_bool();
}
inline std::string text(const document::Value& object, std::string_view key) {
  const document::Value& v = object.at(key);
  return v.is_null() ? std::string() : v.as_string();
}
inline std::vector<int> integers(const document::Value& object, std::string_view key) {
  std::vector<int> list;
  const document::Value& v = object.at(key);
  if (v.is_null()) return list;
  for (const document::Value& item : v.items()) list.push_back(clamped(item.as_int()));
  return list;
}
inline std::vector<std::string> texts(const document::Value& object, std::string_view key) {
  std::vector<std::string> list;
  const document::Value& v = object.at(key);
  if (v.is_null()) return list;
  for (const document::Value& item : v.items()) list.push_back(item.as_string());
  return list;
}
inline Bytes whole_bytes(double value) { return Bytes(std::llround(value)); }

}  // namespace orrery::cluster
