#pragma once
// UTF-8 as RFC 3629 defines it: shortest form, no surrogates, at most U+10FFFF.
#include <cstddef>
#include <string_view>

namespace orrery::document {

/// Length of the well-formed sequence that starts at text[at], or 0 where none does. Requires at < text.size().
inline std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(at), next = byte(at + 1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(at + 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool shortest = lead != 0xE0 || next >= 0xA0;
    const bool surrogate = lead == 0xED && next >= 0xA0;
    return tail(at + 1) && tail(at + 2) && shortest && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool shortest = lead != 0xF0 || next >= 0x90;
    const bool in_range = lead != 0xF4 || next < 0x90;
    return tail(at + 1) && tail(at + 2) && tail(at + 3) && shortest && in_range ? 4 : 0;
  }
  return 0;
}

}  // namespace orrery::document
