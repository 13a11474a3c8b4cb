#pragma once
// A value against its description: kinds, words, ranges, unknown and missing members, and what is not built yet.
#include "description.hpp"
#include "problems.hpp"

namespace orrery::document {

enum class Completeness : std::uint8_t {
  kWhole,  ///< required members must be there
  kPatch,  ///< laid over another document: anything may be absent, null deletes
};

/// Adds every problem of the value. Whole numbers written as 8.0 become integers where the description wants one. References are only
/// checked to be a name or an object: what they name is a document of its own.
void check(Value& value, const Type& type, const Place& place, Completeness completeness, Problems& problems);

/// For messages: `"abc"`, `-1`, `an object`.
std::string found(const Value& value);

}  // namespace orrery::document
