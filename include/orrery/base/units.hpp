#pragma once
// Dimensions as types: what does not add up does not compile. Bandwidth is per direction, FLOP/s are dense, one multiply-add is two FLOPs.
#include <compare>
#include <cstdint>

namespace orrery {

/// A number with a dimension. Tag tells dimensions apart, Rep holds the value in the dimension's base unit.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { value_ += other.value_; return *this; }
  constexpr Quantity& operator-=(Quantity other) { value_ -= other.value_; return *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(static_cast<Rep>(a.value_ + b.value_)); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(static_cast<Rep>(a.value_ - b.value_)); }
  friend constexpr Quantity operator*(Quantity a, Rep s) { return Quantity(static_cast<Rep>(a.value_ * s)); }
  friend constexpr Quantity operator*(Rep s, Quantity a) { return a * s; }
  friend constexpr Quantity operator/(Quantity a, Rep s) { return Quantity(static_cast<Rep>(a.value_ / s)); }

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;             ///< bytes
using Seconds = Quantity<struct SecondsTag, double>;               ///< seconds of the modelled world
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>; ///< bytes/s, one direction
using Flops = Quantity<struct FlopsTag, double>;                   ///< floating point operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>; ///< dense FLOP/s

constexpr double operator/(Seconds a, Seconds b) { return a.value() / b.value(); }
constexpr Seconds operator/(Bytes a, BytesPerSecond b) { return Seconds(static_cast<double>(a.value()) / b.value()); }
constexpr BytesPerSecond operator/(Bytes a, Seconds b) { return BytesPerSecond(static_cast<double>(a.value()) / b.value()); }
constexpr Seconds operator/(Flops a, FlopsPerSecond b) { return Seconds(a.value() / b.value()); }
constexpr FlopsPerSecond operator/(Flops a, Seconds b) { return FlopsPerSecond(a.value() / b.value()); }

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) * kKiB); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) * kMiB); }
constexpr Bytes operator""_GiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) * kGiB); }
constexpr BytesPerSecond operator""_GBps(unsigned long long v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr BytesPerSecond operator""_GBps(long double v) { return BytesPerSecond(static_cast<double>(v) * 1e9); }
constexpr BytesPerSecond operator""_Gbps(unsigned long long v) { return BytesPerSecond(static_cast<double>(v) * 1e9 / 8); }
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_us(unsigned long long v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr FlopsPerSecond operator""_TFLOPs(long double v) { return FlopsPerSecond(static_cast<double>(v) * 1e12); }
}  // namespace literals

constexpr double to_gib(Bytes b) { return static_cast<double>(b.value()) / static_cast<double>(kGiB); }
constexpr BytesPerSecond gb_per_s(double v) { return BytesPerSecond(v * 1e9); }
constexpr BytesPerSecond gbit_per_s(double v) { return BytesPerSecond(v * 1e9 / 8); }
constexpr FlopsPerSecond tflops(double v) { return FlopsPerSecond(v * 1e12); }

}  // namespace orrery
