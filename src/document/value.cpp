#include "orrery/document/value.hpp"

#include <algorithm>
#include <charconv>

#include "orrery/base/assert.hpp"

namespace orrery::document {

bool Value::as_bool() const {
  ORRERY_ASSERT(is_bool(), "the caller has checked that this is a boolean");
  return std::get<bool>(data_);
}

std::int64_t Value::as_int() const {
  ORRERY_ASSERT(is_int(), "the caller has checked that this is an integer");
  return std::get<std::int64_t>(data_);
}

double Value::as_double() const {
  ORRERY_ASSERT(is_number(), "the caller has checked that this is a number");
  return is_int() ? static_cast<double>(std::get<std::int64_t>(data_)) : std::get<double>(data_);
}

const std::string& Value::as_string() const {
  ORRERY_ASSERT(is_string(), "the caller has checked that this is a string");
  return std::get<std::string>(data_);
}

const Value::Array& Value::items() const {
  ORRERY_ASSERT(is_array(), "the caller has checked that this is an array");
  return std::get<Array>(data_);
}

Value::Array& Value::items() { return const_cast<Array&>(std::as_const(*this).items()); }

const Value::Object& Value::members() const {
  ORRERY_ASSERT(is_object(), "the caller has checked that this is an object");
  return std::get<Object>(data_);
}

Value::Object& Value::members() { return const_cast<Object&>(std::as_const(*this).members()); }

const Value* Value::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const Object& object = std::get<Object>(data_);
  const auto it = std::find_if(object.begin(), object.end(), [&](const auto& member) { return member.first == key; });
  return it == object.end() ? nullptr : &it->second;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

const Value& Value::at(std::string_view key) const {
  static const Value null;
  const Value* found = find(key);
  return found != nullptr ? *found : null;
}

Value& Value::set(std::string_view key, Value value) {
  if (is_null()) data_ = Object();
  if (Value* found = find(key)) {
    *found = std::move(value);
    return *found;
  }
  members().emplace_back(std::string(key), std::move(value));
  return members().back().second;
}

void Value::erase(std::string_view key) {
  if (!is_object()) return;
  std::erase_if(members(), [&](const auto& member) { return member.first == key; });
}

namespace {

/// "~1" is "/", "~0" is "~" (RFC 6901, section 4).
std::string unescape(std::string_view token) {
  std::string name;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    name += escape ? (token[++i] == '0' ? '~' : '/') : token[i];
  }
  return name;
}

}  // namespace

const Value* Value::resolve(std::string_view pointer) const {
  const Value* value = this;
  while (!pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string token = unescape(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (value->is_array()) {
      std::size_t index = 0;
      const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), index);
      const bool canonical = token == "0" || (!token.empty() && token.front() != '0');
      if (error != std::errc() || stop != token.data() + token.size() || !canonical || index >= value->items().size()) return nullptr;
      value = &value->items()[index];
    } else {
      value = value->find(token);
      if (value == nullptr) return nullptr;
    }
  }
  return value;
}

Value* Value::resolve(std::string_view pointer) { return const_cast<Value*>(std::as_const(*this).resolve(pointer)); }

}  // namespace orrery::document
