#pragma once
// Broken invariants are bugs of Orrery, not of its user: on in every build, caught in main, exit code 3.
#include <stdexcept>
#include <string>

namespace orrery {

/// Thrown by ORRERY_ASSERT. Only cli/main.cpp catches it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void assertion_failed(const char* condition, const char* reason, const char* file, int line);

}  // namespace orrery

#define ORRERY_ASSERT(condition, reason) \
  ((condition) ? static_cast<void>(0) : ::orrery::assertion_failed(#condition, reason, __FILE__, __LINE__))
