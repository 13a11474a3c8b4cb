#pragma once
// `--set PATH=VALUE` on a document as it was written, before references are resolved and defaults filled in.
#include <span>

#include "description.hpp"
#include "orrery/document/document.hpp"
#include "problems.hpp"

namespace orrery::document {

/// Applies the overrides in order. A path that the description does not know is a problem; one that leads through a catalogue name turns
/// the name into an object that extends it.
void apply_overrides(Value& document, const Type& type, std::span<const Override> overrides, Problems& problems);

}  // namespace orrery::document
