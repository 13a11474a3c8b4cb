#pragma once
// The parts of check(): collected problems, at most 20 of them in words.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "orrery/engine/input.hpp"

namespace orrery::engine {

class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    say(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  std::vector<std::string> list;

 private:
  void say(std::string text);
  std::size_t count_ = 0;
};

/// Programs by themselves. False where their indices cannot be followed.
bool check_programs(const Input& in, Problems& problems);
/// Ranks with their groups and channels; fills in the largest number of pairs at once per channel.
void check_ranks(const Input& in, std::vector<std::uint32_t>& pairs, Problems& problems);

}  // namespace orrery::engine
