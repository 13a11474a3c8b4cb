// Libraries that bring MPI and CUDA, loaded where they are asked for: no other command waits for them, and a machine without them runs the rest.
#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "measure/backends.hpp"

namespace orrery::measure {
namespace {

/// Beside the program, where an installation has it, or where it was built.
template <class Entry>
Result<Entry> entry_of(const std::string& library, const char* symbol, const std::string& needs) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string why = fmt::format("this build has no {}: {}", library, needs);
  for (const fs::path& at : {folder / library, folder / ".." / ORRERY_LIBDIR / "orrery" / library, fs::path(ORRERY_PLUGINS) / library}) {
    if (!fs::exists(at, error)) continue;
    // Global: components of an MPI are libraries that look for its symbols.
    void* handle = dlopen(at.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      const char* said = dlerror();
      why = fmt::format("{} cannot be loaded: {}", library, said == nullptr ? "no reason given" : said);
      continue;
    }
    if (void* found = dlsym(handle, symbol); found != nullptr) return reinterpret_cast<Entry>(found);
    why = fmt::format("{} has no {}", library, symbol);
  }
  return fail("", "", why);
}

}  // namespace

Result<std::unique_ptr<Ranks>> make_ranks() {
  const auto make = entry_of<MakeRanks>("liborrery_mpi.so", "orrery_ranks", "MPI was not found when it was configured ('apt-get install libopenmpi-dev openmpi-bin' brings one)");
  if (!make) return fail(make.error());
  std::unique_ptr<Ranks> ranks((*make)());
  if (!ranks) return fail("", "", "MPI could not be started");
  return ranks;
}

Result<std::unique_ptr<Backend>> make_cuda(Ranks* ranks) {
  const auto make = entry_of<MakeBackend>("liborrery_cuda.so", "orrery_cuda", "no CUDA toolkit with nvcc, cuBLASLt and NCCL was found when it was configured");
  if (!make) return fail(make.error());
  std::unique_ptr<Backend> backend((*make)(ranks));
  if (const std::string problem = backend->problem(); !problem.empty()) return fail("", "", fmt::format("no GPU can be measured here: {}", problem));
  return backend;
}

}  // namespace orrery::measure
