#pragma once
// Pieces of the update that optimizer.cpp puts in order.
#include <cstdint>
#include <vector>

#include "orrery/workload/layers.hpp"

namespace orrery::workload {

/// Bytes per parameter of one kernel, or of a chain of them.
struct Traffic {
  double read = 0, write = 0;
  int kernels = 1;
};

/// What the update reads and writes per parameter: gradient, the weights that are updated, the 16-bit copy written after (0: none), one
/// moment.
struct Widths {
  double gradient = 4, weight = 4, copy = 2, moment = 4;
};
Widths update_widths(const Training& training);

/// Stream of the class "optimizer" over so many parameters.
Operation update_kernel(const char* name, const Traffic& traffic, std::int64_t parameters, int launches);

/// Muon's own part: momentum, gather, orthogonalisation and update of the matrices between layers (muon.cpp).
void append_muon(const Training& training, const StackKernels& kernels, const UpdateShapes& shapes, std::vector<Operation>& out);
/// Parameters of matrices that Muon updates, all shards together.
std::int64_t muon_parameters(const UpdateShapes& shapes);
std::int64_t muon_buffer_bytes(const UpdateShapes& shapes);

}  // namespace orrery::workload
