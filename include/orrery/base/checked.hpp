#pragma once
// 64-bit arithmetic on sizes that a user can drive anywhere: overflow is reported, never wrapped.
#include <cstdint>
#include <optional>

namespace orrery {

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 && ((a < 0) == (b < 0)) ? 1 : 0); }

}  // namespace orrery
