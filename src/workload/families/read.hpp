#pragma once
// Members that several families read alike, and what follows from a residual stream of `hidden` features.
#include <string>

#include "table.hpp"

namespace orrery::workload {

std::int64_t integer_of(const document::Value& v, const char* member, std::int64_t otherwise);
bool flag_of(const document::Value& v, const char* member, bool otherwise);
std::string text_of(const document::Value& v, const char* member, const char* otherwise);
Activation activation_of(const document::Value& v, Activation otherwise);

/// hidden, ffn_hidden, heads (as many key and value heads), head_dim, layers, gated_mlp, activation; with layers absent it is not touched.
void read_blocks(const document::Value& v, Model& m, const Complain& complain);

/// The hidden state of this rank's tokens, whatever the layer.
std::int64_t hidden_bytes(const Model& m, const Training& t, const Shard& shard, std::int64_t layer);
/// Of blocks of attention and MLP with a vocabulary at the end.
double widest_of_blocks(const Model& m, double sequence);

}  // namespace orrery::workload
