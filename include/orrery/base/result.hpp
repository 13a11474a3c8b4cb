#pragma once
// What reads the outside world returns Result<T>; it never throws.
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace orrery {

/// One located problem. Printed as "file:/pointer: text" (pointer "" is the whole document); lower case, no full stop.
struct Diagnostic {
  std::string file;
  std::string pointer;
  std::string text;
  bool operator==(const Diagnostic&) const = default;
};
using Diagnostics = std::vector<Diagnostic>;

template <class T>
using Result = tl::expected<T, Diagnostics>;

inline tl::unexpected<Diagnostics> fail(Diagnostic d) { return tl::unexpected<Diagnostics>(Diagnostics{std::move(d)}); }
inline tl::unexpected<Diagnostics> fail(Diagnostics d) { return tl::unexpected<Diagnostics>(std::move(d)); }
inline tl::unexpected<Diagnostics> fail(std::string file, std::string pointer, std::string text) {
  return fail(Diagnostic{std::move(file), std::move(pointer), std::move(text)});
}

/// "file:/pointer: text"; without the file where it is empty.
std::string to_string(const Diagnostic& d);

}  // namespace orrery
