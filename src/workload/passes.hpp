#pragma once
// One function per kind of layer, each in its own file; make_layer chooses.
#include "orrery/workload/layers.hpp"

namespace orrery::workload {

Layer embedding_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels);
Layer decoder_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels, const Block& block);
Layer head_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels);

}  // namespace orrery::workload
