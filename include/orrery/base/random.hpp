#pragma once
// Random numbers as a function of (seed, stream name, index): no state, no order, the same on every library and thread count.
#include <cstdint>
#include <string_view>

namespace orrery {

/// 64 random bits of a stream. Source: SplitMix64 finaliser (Steele, Lea, Flood, OOPSLA 2014) over an FNV-1a hash of the name.
std::uint64_t random_bits(std::uint64_t seed, std::string_view stream, std::uint64_t index);
/// Uniform in [0, 1), 53 bits.
double random_uniform(std::uint64_t seed, std::string_view stream, std::uint64_t index);
/// Standard normal by inversion (Acklam's rational approximation with one Halley step; relative error below 1e-15).
double random_normal(std::uint64_t seed, std::string_view stream, std::uint64_t index);
/// Quantile of the standard normal. Requires 0 < p < 1.
double normal_quantile(double p);

}  // namespace orrery
