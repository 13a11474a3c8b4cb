// Linear layers one after the other: the network that tutorials of data parallelism start from. A block is one linear layer and, but for the
// last, its activation; the loss is the head.
#include <algorithm>

#include "orrery/base/assert.hpp"
#include "plain.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const Mlp& own(const Model& m) { return std::get<Mlp>(m.of_family); }
std::int64_t width(const Model& m, std::int64_t layer) { return own(m).widths[static_cast<std::size_t>(layer)]; }

void read(const document::Value& v, Model& m, const Complain&) {
  Mlp mlp;
  for (const document::Value& w : v.at("widths").items()) mlp.widths.push_back(w.as_int());
  mlp.bias = v.at("bias").is_null() || v.at("bias").as_bool();
  mlp.squared_error = !v.at("loss").is_null() && v.at("loss").as_string() == "mse";
  m.layers = static_cast<std::int64_t>(mlp.widths.size()) - 1;
  m.of_family = std::move(mlp);
}

/// Every layer has sizes of its own.
Block block(const Model&, std::int64_t layer) { return part(layer); }

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  Writer w(m, t, shard, k);
  const std::int64_t rows = shard.micro_batch;
  Layer out;
  if (kind == LayerKind::kEmbedding) {
    out.name = "batch";  // the data arrive as they are
    return out;
  }
  if (kind == LayerKind::kHead) {
    const std::int64_t classes = width(m, m.layers);
    const TensorId logits = w.tape.input(w.bytes(rows * classes));
    if (own(m).squared_error) {
      plain_loss(w, "squared_error", logits, rows * classes);
    } else {
      plain_cross_entropy(w, logits, rows, classes);
    }
    out = w.tape.finish(kNoTensor, {});
    out.name = "loss";
    return out;
  }
  const std::int64_t in = width(m, b.part), features = width(m, b.part + 1);
  const bool last = b.part + 1 == m.layers;
  const TensorId x = w.tape.input(w.bytes(rows * in));
  TensorId y = plain_linear(w, "linear", x, rows, in, features, own(m).bias, b.part == 0);
  if (!last) y = plain_activation(w, "activation", y, rows * features, m.activation == Activation::kRelu);
  out = w.tape.finish(y, recompute_policy(t, k));
  out.parameters = w.parameters;
  out.name = "linear";
  return out;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  return shard.micro_batch * width(m, layer) * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

double widest(const Model& m, double) {
  const auto& widths = own(m).widths;
  return 4 * static_cast<double>(*std::max_element(widths.begin(), widths.end()));
}

std::vector<Limit> limits(const Model&, const Training& t, const Split& split) {
  return limits_of_samples("an MLP", t, split);
}

}  // namespace

const FamilyRow kMlpRow{Family::kMlp, "mlp", read, block, layer, entering, widest, limits, one_token, no_tables, false};

}  // namespace orrery::workload
