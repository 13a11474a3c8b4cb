#pragma once
// Where a number comes from, best first. A composed number is as weak as its weakest part.
#include <array>
#include <cstdint>
#include <string_view>

namespace orrery {

enum class Origin : std::uint8_t { kMeasured, kInterpolated, kExtrapolated, kPublished, kDatasheet, kDefault };
inline constexpr std::size_t kOriginCount = 6;
inline constexpr std::array<std::string_view, kOriginCount> kOriginNames = {"measured",  "interpolated", "extrapolated",
                                                                            "published", "datasheet",    "default"};
constexpr std::string_view to_string(Origin o) { return kOriginNames[static_cast<std::size_t>(o)]; }
constexpr Origin weaker(Origin a, Origin b) { return a < b ? b : a; }

}  // namespace orrery
