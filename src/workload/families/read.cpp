#include "read.hpp"

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/base/checked.hpp"

namespace orrery::workload {

using document::Value;

std::int64_t integer_of(const Value& v, const char* member, std::int64_t otherwise) { return v.at(member).is_null() ? otherwise : v.at(member).as_int(); }
bool flag_of(const Value& v, const char* member, bool otherwise) { return v.at(member).is_null() ? otherwise : v.at(member).as_bool(); }
std::string text_of(const Value& v, const char* member, const char* otherwise) { return v.at(member).is_null() ? otherwise : v.at(member).as_string(); }

Activation activation_of(const Value& v, Activation otherwise) {
  const std::string name = text_of(v, "activation", "");
  if (name == "silu") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kRelu2;
  ORRERY_ASSERT(name.empty(), "the document's description lists the names");
  return otherwise;
}

void read_blocks(const Value& v, Model& m, const Complain& complain) {
  m.hidden = v.at("hidden").as_int();
  m.ffn_hidden = v.at("ffn_hidden").as_int();
  m.heads = m.kv_heads = v.at("heads").as_int();
  m.head_dim = integer_of(v, "head_dim", m.hidden / m.heads);
  m.layers = integer_of(v, "layers", m.layers);
  m.gated_mlp = flag_of(v, "gated_mlp", false);
  m.activation = activation_of(v, Activation::kGelu);
  if (m.head_dim < 1) complain("head_dim", fmt::format("hidden {} over {} heads leaves no head dimension; state head_dim", m.hidden, m.heads));
}

std::int64_t hidden_bytes(const Model& m, const Training& t, const Shard& shard, std::int64_t) {
  const std::int64_t tokens = shard.micro_batch * ceil_div(shard.sequence, shard.cp);
  const bool sp = shard.sequence_parallel && shard.tp > 1;
  return (sp ? ceil_div(tokens, shard.tp) : tokens) * m.hidden * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

double widest_of_blocks(const Model& m, double sequence) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  return sequence * (d(m.hidden) + d(3 * m.heads) * d(m.head_dim) + 2 * d(m.ffn_hidden) + d(m.vocab) + d(m.heads) * sequence);
}

}  // namespace orrery::workload
