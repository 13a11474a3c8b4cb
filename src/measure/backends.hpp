#pragma once
// The back ends that a run may use.
#include <memory>
#include <string>
#include <vector>

#include "measure/plugin/backend.hpp"
#include "orrery/base/result.hpp"

namespace orrery::measure {

/// The CPU's BLAS and memory; collectives where there are ranks. `threads` 0: as the library chooses.
Result<std::unique_ptr<Backend>> make_host(int threads, Ranks* ranks);
std::vector<calibration::Point> host_shapes(const std::string& set, const Ranks* ranks);

/// CUDA, from its library. `ranks` null: one process for all devices of this machine.
Result<std::unique_ptr<Backend>> make_cuda(Ranks* ranks);

/// The group of processes that mpirun started.
Result<std::unique_ptr<Ranks>> make_ranks();

}  // namespace orrery::measure
