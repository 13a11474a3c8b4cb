#pragma once
// All problems of a document in one go, at most twenty: more than a screen helps nobody.
#include <algorithm>
#include <string>
#include <utility>

#include "orrery/base/result.hpp"

namespace orrery::document {

class Problems {
 public:
  static constexpr std::size_t kMost = 20;
  void add(std::string file, std::string pointer, std::string text) {
    ++count_;
    Diagnostic d{std::move(file), std::move(pointer), std::move(text)};
    if (list_.size() < kMost && std::find(list_.begin(), list_.end(), d) == list_.end()) list_.push_back(std::move(d));  // what several members meet is said once
  }
  void add(const Diagnostics& all) {
    for (const Diagnostic& d : all) add(d.file, d.pointer, d.text);
  }
  /// Something to know that refuses nothing.
  void warn(std::string file, std::string pointer, std::string text) {
    if (warnings_.size() < kMost) warnings_.push_back({std::move(file), std::move(pointer), std::move(text)});
  }
  [[nodiscard]] const Diagnostics& warnings() const { return warnings_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }  ///< also those that are not kept
  [[nodiscard]] const Diagnostics& list() const { return list_; }

 private:
  Diagnostics list_, warnings_;
  std::size_t count_ = 0;
};

/// Where a value stands.
struct Place {
  std::string file;
  std::string pointer;
  [[nodiscard]] Place member(std::string_view name) const {
    Place inner{file, pointer + '/'};
    for (const char c : name) inner.pointer += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
    return inner;
  }
  [[nodiscard]] Place item(std::size_t index) const { return {file, pointer + '/' + std::to_string(index)}; }
};

}  // namespace orrery::document
