#include "heap.hpp"

#include <cstdint>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace orrery::cli {

void prepare_heap() {
#ifdef __GLIBC__
  // Addresses, not memory: a page is taken when it is first written.
  constexpr int kPad = 64 << 20;
  constexpr std::uintptr_t kHugePage = 2 << 20;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2047 << 20);
  mallopt(M_TOP_PAD, kPad);
  const auto begin = reinterpret_cast<std::uintptr_t>(sbrk(0));
  void* volatile whole = std::malloc(kPad);  // volatile: or the compiler leaves both calls out
  std::free(whole);
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  // Refused where the kernel has no huge pages: then small ones serve as they do elsewhere.
  if (begin != UINTPTR_MAX && end > first) static_cast<void>(madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
#endif
}

}  // namespace orrery::cli
