// Residual networks (He et al., arXiv:1512.03385) as torchvision builds them (models/resnet.py): a stem, stages of blocks, a classifier. The
// stride of a bottleneck is its 3 x 3 convolution's ("v1.5"). Maps are stored channels last.
//
// A normalisation over the batch reads its input twice, for the statistics and to normalise; backward reads input and gradient twice (Jung et
// al., arXiv:1807.01702, section 2). Fused, ReLU and the residual sum ride on it (NVIDIA's NHWC batch norm with add and ReLU); eager PyTorch
// runs a kernel for each, ReLU in place.
#include <algorithm>

#include "orrery/base/checked.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const Convolutional& own(const Model& m) { return std::get<Convolutional>(m.of_family); }

void read(const document::Value& v, Model& m, const Complain&) {
  Convolutional c;
  c.bottleneck = text_of(v, "block", "bottleneck") == "bottleneck";
  c.image_size = v.at("image_size").as_int();
  c.channels = integer_of(v, "channels", 3);
  c.stem_width = integer_of(v, "stem_width", 64);
  c.classes = v.at("classes").as_int();
  for (const document::Value& s : v.at("stages").items()) c.stages.push_back({s.at("blocks").as_int(), s.at("width").as_int(), integer_of(s, "stride", 1)});
  m.layers = 0;
  for (const Convolutional::Stage& s : c.stages) m.layers += s.blocks;
  m.of_family = std::move(c);
}

/// Height of the maps after a convolution padded to keep them, strided.
std::int64_t strided(std::int64_t size, std::int64_t stride) { return ceil_div(size, stride); }

/// What a block stands in: part 2s + 1 opens stage s, part 2s continues it.
struct Place {
  std::int64_t in_size = 0, out_size = 0, in_channels = 0, width = 0, out_channels = 0, stride = 1;
  [[nodiscard]] bool projects() const { return stride != 1 || in_channels != out_channels; }
};
Place place(const Convolutional& c, std::int64_t number) {
  const auto at = static_cast<std::size_t>(number / 2);
  Place p;
  p.out_size = strided(strided(c.image_size, 2), 2);  // the stem's convolution and its pooling
  p.out_channels = c.stem_width;
  for (std::size_t s = 0; s <= at; ++s) {
    p.in_size = p.out_size;
    p.in_channels = p.out_channels;
    p.stride = c.stages[s].stride;
    p.width = c.stages[s].width;
    p.out_size = strided(p.in_size, p.stride);
    p.out_channels = p.width * c.expansion();
  }
  if (number % 2 == 0) {
    p.in_size = p.out_size;
    p.in_channels = p.out_channels;
    p.stride = 1;
  }
  return p;
}

Block block(const Model& m, std::int64_t layer) {
  std::int64_t stage = 0;
  for (const Convolutional::Stage& s : own(m).stages) {
    if (layer < s.blocks) return part(2 * stage + (layer == 0 ? 1 : 0));
    layer -= s.blocks;
    ++stage;
  }
  return {};
}

TensorId convolution(Writer& w, const std::string& name, TensorId x, Convolution c, bool first = false) {
  c.images = w.s.batch;
  c.in = matmul_dtype(w.training);
  c.out = w.act;
  const std::int64_t weights = c.out_channels * c.in_channels * c.kernel * c.kernel;
  w.parameters.replicated += weights;
  w.parameters.matrices.push_back({c.out_channels, c.in_channels * c.kernel * c.kernel});
  const TensorId y = w.activation(name + "_output", c.result_elements());
  w.tape.forward({name, c}, {x}, {y});
  w.tape.on_backward([=, &w] {
    const TensorId dy = w.tape.gradient(y);
    Convolution back = c;
    if (!first) {
      back.pass = ConvolutionPass::kInputGradient;
      const TensorId dx = w.activation(name + "_input_gradient", back.result_elements());
      w.tape.backward({name + "_input_gradient", back}, {dy}, {dx});
      w.tape.add_gradient(x, dx, w.bytes(back.result_elements()));
    }
    back.pass = ConvolutionPass::kWeightGradient;
    if (!w.shard.gradient_buffer) {
      w.tape.backward({name + "_weight_gradient", back}, {dy, x}, {}, true);
      return;
    }
    const TensorId fresh = w.activation(name + "_weight_gradient", weights);
    w.tape.backward({name + "_weight_gradient", back}, {dy, x}, {fresh}, true);
    const std::int64_t main = static_cast<std::int64_t>(element_bytes(w.training.grad_dtype)) * weights;
    w.backward_stream("accumulate_" + name, StreamKind::kElementwise, w.bytes(weights) + main, main, 1, {fresh}, {}, true);
  });
  return y;
}

/// relu(norm(x) + residual), each of the last two where wanted.
TensorId batch_norm(Writer& w, const std::string& name, TensorId x, std::int64_t n, std::int64_t channels, bool relu, TensorId residual = kNoTensor) {
  const bool adds = residual != kNoTensor, fused = w.kernels.fused_norm;
  w.own_vectors(2 * channels, 2);
  const std::int64_t e = w.bytes(n);
  const TensorId y = w.activation(name + "_output", n);
  std::vector<TensorId> reads = {x};
  if (adds) reads.push_back(residual);
  const int others = (adds ? 1 : 0) + (relu ? 1 : 0);
  const std::int64_t alone_read = 2 * e + (adds ? 2 * e : 0) + (relu ? e : 0), alone_written = e + (adds ? e : 0) + (relu ? e : 0);
  w.stream(name, StreamKind::kNorm, fused ? 2 * e + (adds ? e : 0) : alone_read, fused ? e : alone_written, fused ? 1 : 1 + others, reads, {y});
  w.tape.on_backward([=, &w] {
    TensorId dy = w.tape.gradient(y);
    const TensorId dx = w.activation(name + "_gradient", n);
    if (fused) {
      std::vector<TensorId> makes = {dx};
      std::vector<TensorId> from = {dy, x};
      if (relu) from.push_back(y);
      const TensorId through = relu && adds ? w.activation(name + "_residual_gradient", n) : dy;
      if (through != dy) makes.push_back(through);
      w.backward_stream(name + "_backward", StreamKind::kNorm, 4 * e + (relu ? e : 0), e + (through != dy ? e : 0), 1, from, makes);
      dy = through;
    } else {
      if (relu) {
        const TensorId open = w.activation(name + "_relu_gradient", n);
        w.backward_stream(name + "_relu_backward", StreamKind::kElementwise, 2 * e, e, 1, {dy, y}, {open});
        dy = open;
      }
      w.backward_stream(name + "_backward", StreamKind::kNorm, 4 * e, e, 1, {dy, x}, {dx});
    }
    w.tape.add_gradient(x, dx, e);
    if (adds) w.tape.add_gradient(residual, dy, e);
  });
  return y;
}

Layer stem(Writer& w, const Convolutional& c) {
  const std::int64_t b = w.s.batch, pixels = b * c.channels * c.image_size * c.image_size;
  const std::int64_t half = strided(c.image_size, 2), quarter = strided(half, 2);
  const std::int64_t n = b * half * half * c.stem_width, pooled = b * quarter * quarter * c.stem_width;
  const TensorId image = w.activation("image", pixels);
  w.stream("image_layout", StreamKind::kPermute, 4 * pixels, w.bytes(pixels), 1, {}, {image});
  TensorId x = convolution(w, "stem", image, {.in_channels = c.channels, .out_channels = c.stem_width, .in_size = c.image_size, .out_size = half, .kernel = 7, .stride = 2}, true);
  x = batch_norm(w, "stem_norm", x, n, c.stem_width, true);
  // 3 x 3 windows; an 8-byte index of the largest is kept (PyTorch max_pool2d_with_indices), and gradients are added where it points.
  const TensorId y = w.activation("pool_output", pooled), index = w.tape.tensor("pool_index", 8 * pooled);
  w.stream("max_pool", StreamKind::kReduce, w.bytes(n), w.bytes(pooled) + 8 * pooled, 1, {x}, {y, index});
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation("pool_gradient", n);
    w.backward_stream("max_pool_backward", StreamKind::kElementwise, w.bytes(pooled) + 8 * pooled, w.bytes(n), 1, {w.tape.gradient(y), index}, {dx});
    w.tape.add_gradient(x, dx, w.bytes(n));
  });
  return w.tape.finish(y, {});
}

Layer residual_block(Writer& w, const Convolutional& c, const Place& p, const RecomputePolicy& policy) {
  const std::int64_t b = w.s.batch, before = b * p.in_size * p.in_size, after = b * p.out_size * p.out_size;
  const TensorId x = w.tape.input(w.bytes(before * p.in_channels));
  const auto conv = [&](const char* name, TensorId from, std::int64_t in, std::int64_t out, std::int64_t in_size, std::int64_t kernel, std::int64_t stride) {
    return convolution(w, name, from, {.in_channels = in, .out_channels = out, .in_size = in_size, .out_size = strided(in_size, stride), .kernel = kernel, .stride = stride});
  };
  TensorId y = x;
  if (c.bottleneck) {
    y = batch_norm(w, "norm1", conv("conv1", y, p.in_channels, p.width, p.in_size, 1, 1), before * p.width, p.width, true);
    y = batch_norm(w, "norm2", conv("conv2", y, p.width, p.width, p.in_size, 3, p.stride), after * p.width, p.width, true);
    y = conv("conv3", y, p.width, p.out_channels, p.out_size, 1, 1);
  } else {
    y = batch_norm(w, "norm1", conv("conv1", y, p.in_channels, p.width, p.in_size, 3, p.stride), after * p.width, p.width, true);
    y = conv("conv2", y, p.width, p.out_channels, p.out_size, 3, 1);
  }
  TensorId shortcut = x;
  if (p.projects()) {
    shortcut = batch_norm(w, "projection_norm", conv("projection", x, p.in_channels, p.out_channels, p.in_size, 1, p.stride), after * p.out_channels, p.out_channels, false);
  }
  return w.tape.finish(batch_norm(w, "last_norm", y, after * p.out_channels, p.out_channels, true, shortcut), policy);
}

Layer head(Writer& w, const Convolutional& c) {
  const Place last = place(c, 2 * static_cast<std::int64_t>(c.stages.size()) - 1);
  const std::int64_t b = w.s.batch, n = b * last.out_size * last.out_size * last.out_channels, features = b * last.out_channels;
  const TensorId x = w.tape.input(w.bytes(n)), mean = w.activation("mean", features);
  w.stream("average_pool", StreamKind::kReduce, w.bytes(n), w.bytes(features), 1, {x}, {mean});
  w.tape.on_backward([=, &w] {
    const TensorId dx = w.activation("mean_gradient", n);
    w.backward_stream("average_pool_backward", StreamKind::kElementwise, w.bytes(features), w.bytes(n), 1, {w.tape.gradient(mean)}, {dx});
    w.tape.add_gradient(x, dx, w.bytes(n));
  });
  plain_cross_entropy(w, plain_linear(w, "classifier", mean, b, last.out_channels, c.classes, true), b, c.classes);
  return w.tape.finish(kNoTensor, {});
}

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  Writer w(m, t, shard, k);
  Layer out;
  if (kind == LayerKind::kEmbedding) out = stem(w, own(m));
  if (kind == LayerKind::kDecoder) out = residual_block(w, own(m), place(own(m), b.part), recompute_policy(t, k));
  if (kind == LayerKind::kHead) out = head(w, own(m));
  out.parameters = w.parameters;
  out.name = kind == LayerKind::kEmbedding ? "stem" : kind == LayerKind::kHead ? "classifier" : own(m).bottleneck ? "bottleneck" : "basic block";
  return out;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  const Convolutional& c = own(m);
  const Place p = layer < m.layers ? place(c, block(m, layer).part) : place(c, 2 * static_cast<std::int64_t>(c.stages.size()) - 1);
  const std::int64_t elements = layer < m.layers ? p.in_size * p.in_size * p.in_channels : p.out_size * p.out_size * p.out_channels;
  return shard.micro_batch * elements * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

double widest(const Model& m, double) {
  const Convolutional& c = own(m);
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  double most = d(c.image_size) * d(c.image_size) * (d(c.channels) + d(c.stem_width));
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const Place p = place(c, 2 * static_cast<std::int64_t>(s) + 1);
    most = std::max(most, d(p.in_size) * d(p.in_size) * (d(p.in_channels) + d(p.width) + d(p.out_channels)));
  }
  return most + d(c.classes);
}

std::vector<Limit> limits(const Model&, const Training& t, const Split& split) { return limits_of_samples("a convolutional network", t, split); }

}  // namespace

const FamilyRow kConvolutionalRow{Family::kConvolutional, "convolutional", read, block, layer, entering, widest, limits, one_token, no_tables, false};

}  // namespace orrery::workload
