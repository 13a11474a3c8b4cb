#pragma once
// One function per kind of layer, each in its own file; make_layer chooses.
#include "orrery/workload/layers.hpp"
#include "writer.hpp"

namespace orrery::workload {

Layer embedding_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels);
Layer decoder_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels, const Block& block);
Layer head_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels);
/// The rows of the words, with positions, norm and scale where the model has them.
TensorId embed_words(Writer& w);
Layer prediction_layer(const Model& model, const Training& training, const Shard& shard, const StackKernels& kernels, const Block& block);
/// Both residual branches of a decoder layer, on the writer's tape.
TensorId decoder_block(Writer& w, TensorId x, const Block& block);
/// From a normalised state to the loss.
void head_and_loss(Writer& w, const LinearInput& normed);
/// The loss over this rank's part of the padded vocabulary: `elements` logits. The writer outlives the tape's playback.
void vocabulary_loss(Writer& w, TensorId logits, std::int64_t elements);

}  // namespace orrery::workload
