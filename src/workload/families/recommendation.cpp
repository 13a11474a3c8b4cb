// DLRM (Naumov et al., arXiv:1906.00091) as MLPerf trains it: look-up tables split over the data-parallel ranks, an MLP over dense features, an
// interaction of all their vectors, and an MLP to the click.
//
// Tables are model-parallel: a rank holds its share of their rows and serves the samples of all ranks. Indices go out by one all-to-all, rows
// summed over a sample's look-ups come back by another, and so do their gradients. A table's rows are updated in the backward pass as their
// gradients arrive (TorchRec EmbeddingBagCollection with a fused optimizer; HugeCTR): no dense gradient exists, and no optimizer step follows.
// Shares are taken as even; TorchRec's planner cuts large tables by rows or columns to make them so.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "orrery/base/checked.hpp"
#include "plain.hpp"
#include "read.hpp"
#include "table.hpp"

namespace orrery::workload {
namespace {

const Recommendation& own(const Model& m) { return std::get<Recommendation>(m.of_family); }

std::vector<std::int64_t> numbers(const document::Value& v) {
  std::vector<std::int64_t> out;
  if (v.is_null()) return out;
  for (const document::Value& item : v.items()) out.push_back(item.as_int());
  return out;
}

void read(const document::Value& v, Model& m, const Complain& complain) {
  Recommendation r;
  r.dense_features = v.at("dense_features").as_int();
  r.embedding_dim = v.at("embedding_dim").as_int();
  r.bottom = numbers(v.at("bottom"));
  r.top = numbers(v.at("top"));
  r.tables = numbers(v.at("tables"));
  r.lookups = numbers(v.at("lookups"));
  r.cross_layers = integer_of(v, "cross_layers", 0);
  r.cross_rank = integer_of(v, "cross_rank", 0);
  if (r.lookups.empty()) r.lookups.assign(r.tables.size(), 1);
  if (r.lookups.size() != r.tables.size()) complain("lookups", fmt::format("{} entries for {} tables; give one for each table", r.lookups.size(), r.tables.size()));
  if (r.bottom.back() != r.embedding_dim) {
    complain("bottom", fmt::format("the last layer makes {} features, but it interacts with rows of {}; end with embedding_dim", r.bottom.back(), r.embedding_dim));
  }
  if (r.cross_layers > 0 && r.cross_rank == 0) complain("cross_rank", "the cross layers need a rank; state cross_rank");
  m.layers = 2;  // the bottom; the interaction and the top
  m.of_family = std::move(r);
}

Block block(const Model&, std::int64_t layer) { return part(layer); }

std::int64_t vectors(const Recommendation& r) { return static_cast<std::int64_t>(r.tables.size()) + 1; }
std::int64_t looked_up(const Recommendation& r) { return std::accumulate(r.lookups.begin(), r.lookups.end(), std::int64_t{0}); }
std::int64_t rows(const Recommendation& r) { return std::accumulate(r.tables.begin(), r.tables.end(), std::int64_t{0}); }

/// Bytes of a row's element where it lies. Quantised tables are not trained.
std::int64_t stored(const Training& t) { return static_cast<std::int64_t>(element_bytes(t.param_dtype)); }

/// Bytes of optimizer state a row's element has: row-wise Adagrad keeps one fp32 value a row for adaptive optimizers, SGD none.
std::int64_t states_of_row(const Training& t) { return t.optimizer == Optimizer::kSgd ? 0 : 4; }

Layer look_up(Writer& w, const Recommendation& r) {
  const Shard& shard = w.shard;
  const std::int64_t b = w.s.batch, tables = vectors(r) - 1, d = r.embedding_dim, found = b * looked_up(r), pooled = b * tables * d;
  const std::int64_t ranks = shard.dp, row = stored(w.training) * d;
  w.parameters.tables = ceil_div(rows(r) * d, ranks);
  w.parameters.table_bytes = w.parameters.tables * stored(w.training) + ceil_div(rows(r), ranks) * states_of_row(w.training);
  const TensorId indices = w.tape.tensor("indices", 8 * found), mine = w.tape.tensor("indices_of_rank", 8 * found);
  w.stream("indices", StreamKind::kPermute, 8 * found, 8 * found, 1, {}, {indices});
  if (ranks > 1) {
    w.tape.forward({"all_to_all_indices", Comm{CommKind::kAllToAll, Axis::kDp, 8 * found}}, {indices}, {mine});
  } else {
    w.stream("bag_order", StreamKind::kPermute, 8 * found, 8 * found, 1, {indices}, {mine});
  }
  const TensorId sums = w.activation("bags_of_rank", pooled), here = w.activation("bags", pooled);
  w.stream("embedding_bag", StreamKind::kEmbedding, row * found + 8 * found, w.bytes(pooled), 1, {mine}, {sums});
  if (ranks > 1) {
    w.tape.forward({"all_to_all_bags", Comm{CommKind::kAllToAll, Axis::kDp, w.bytes(pooled)}}, {sums}, {here});
  } else {
    w.stream("bag_layout", StreamKind::kPermute, w.bytes(pooled), w.bytes(pooled), 1, {sums}, {here});
  }
  w.tape.on_backward([=, &w] {
    const TensorId dsums = w.activation("bags_of_rank_gradient", pooled);
    if (ranks > 1) {
      w.tape.backward({"all_to_all_bag_gradients", Comm{CommKind::kAllToAll, Axis::kDp, w.bytes(pooled)}}, {w.tape.gradient(here)}, {dsums});
    } else {
      w.backward_stream("bag_layout_backward", StreamKind::kPermute, w.bytes(pooled), w.bytes(pooled), 1, {w.tape.gradient(here)}, {dsums});
    }
    // Equal rows are brought together by a radix sort of their indices (four passes of 16 bits over 8-byte keys), then each is read with its
    // gradient and state and written back.
    w.backward_stream("sort_indices", StreamKind::kPermute, 4 * 16 * found, 4 * 16 * found, 4, {mine}, {}, true);
    const std::int64_t state = states_of_row(w.training) * found;
    w.backward_stream("update_rows", StreamKind::kOptimizer, (w.bytes(d) + row) * found + state, row * found + state, 1, {dsums, mine}, {}, true);
  });
  return w.tape.finish(here, {});
}

TensorId tower(Writer& w, const std::string& name, TensorId x, std::int64_t in, const std::vector<std::int64_t>& widths, bool data, bool clicks) {
  const std::int64_t b = w.s.batch;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string here = fmt::format("{}{}", name, i + 1);
    x = plain_linear(w, here, x, b, in, widths[i], true, data && i == 0);
    if (!clicks || i + 1 < widths.size()) x = plain_activation(w, here + "_relu", x, b * widths[i], true);
    in = widths[i];
  }
  return x;
}

/// Vectors side by side: one copy, and its reverse.
TensorId concatenate(Writer& w, const std::string& name, std::int64_t n, const std::vector<TensorId>& parts, const std::vector<std::int64_t>& sizes) {
  const TensorId y = w.activation(name, n);
  w.stream(name, StreamKind::kCopy, w.bytes(n), w.bytes(n), 1, parts, {y});
  w.tape.on_backward([=, &w] {
    std::vector<TensorId> gradients;
    for (const std::int64_t size : sizes) gradients.push_back(w.activation(name + "_part_gradient", size));
    w.backward_stream(name + "_backward", StreamKind::kCopy, w.bytes(n), w.bytes(n), 1, {w.tape.gradient(y)}, gradients);
    for (std::size_t i = 0; i < parts.size(); ++i) w.tape.add_gradient(parts[i], gradients[i], w.bytes(sizes[i]));
  });
  return y;
}

/// Dot products of all pairs of vectors, beside the dense one (arXiv:1906.00091, section 2.1): a batch of small products and a gather of
/// their lower triangles.
TensorId pairs(Writer& w, const Recommendation& r, TensorId all, TensorId dense, std::int64_t& width) {
  const std::int64_t b = w.s.batch, v = vectors(r), d = r.embedding_dim, chosen = v * (v - 1) / 2;
  const DType dtype = matmul_dtype(w.training);
  width = d + chosen;
  const TensorId products = w.activation("products", b * v * v), flat = w.activation("lower_triangles", b * chosen);
  w.tape.forward({"interaction", Gemm{.m = v, .n = v, .k = d, .batch = b, .in = dtype, .out = w.act, .layout = GemmLayout::kTN}}, {all}, {products});
  w.stream("lower_triangles", StreamKind::kPermute, w.bytes(b * chosen), w.bytes(b * chosen), 1, {products}, {flat});
  w.tape.on_backward([=, &w] {
    const TensorId dproducts = w.activation("products_gradient", b * v * v), dall = w.activation("vectors_gradient", b * v * d);
    w.backward_stream("lower_triangles_backward", StreamKind::kPermute, w.bytes(b * chosen), w.bytes(2 * b * v * v), 2, {w.tape.gradient(flat)}, {dproducts});
    // G X and G^T X of the two operands, which are one: a product each.
    w.tape.backward({"interaction_gradient", Gemm{.m = v, .n = d, .k = v, .batch = 2 * b, .in = dtype, .out = w.act, .layout = GemmLayout::kNN}}, {dproducts, all}, {dall});
    w.tape.add_gradient(all, dall, w.bytes(b * v * d));
  });
  return concatenate(w, "top_input", b * width, {dense, flat}, {b * d, b * chosen});
}

/// x0 * (V (U x) + b) + x, a layer of the low-rank cross network (DCN V2, arXiv:2008.13535, equation 2).
TensorId cross(Writer& w, const Recommendation& r, TensorId x0) {
  const std::int64_t b = w.s.batch, width = vectors(r) * r.embedding_dim, n = b * width;
  TensorId x = x0;
  for (std::int64_t i = 0; i < r.cross_layers; ++i) {
    const std::string name = fmt::format("cross{}", i + 1);
    const TensorId low = plain_linear(w, name + "_down", x, b, width, r.cross_rank, false);
    const TensorId wide = plain_linear(w, name + "_up", low, b, r.cross_rank, width, true);
    const TensorId y = w.activation(name + "_output", n), before = x;
    w.stream(name, StreamKind::kElementwise, 3 * w.bytes(n), w.bytes(n), 1, {x0, wide, before}, {y});
    w.tape.on_backward([=, &w] {
      const TensorId dy = w.tape.gradient(y), dwide = w.activation(name + "_branch_gradient", n), dx0 = w.activation(name + "_input_gradient", n);
      w.backward_stream(name + "_backward", StreamKind::kElementwise, 3 * w.bytes(n), 2 * w.bytes(n), 1, {dy, x0, wide}, {dwide, dx0});
      w.tape.set_gradient(wide, dwide);
      w.tape.add_gradient(before, dy, w.bytes(n));
      w.tape.add_gradient(x0, dx0, w.bytes(n));
    });
    x = y;
  }
  return x;
}

/// The bags pass the bottom layer by: its output is what it makes of the dense features.
Layer bottom(Writer& w, const Recommendation& r, const RecomputePolicy& policy) {
  const std::int64_t b = w.s.batch;
  const TensorId bags = w.tape.input(w.bytes(b * (vectors(r) - 1) * r.embedding_dim));
  const TensorId features = w.activation("dense_features", b * r.dense_features);
  w.stream("dense_features", StreamKind::kCast, 4 * b * r.dense_features, w.bytes(b * r.dense_features), 1, {}, {features});
  const TensorId dense = tower(w, "bottom", features, r.dense_features, r.bottom, true, false);
  const std::int64_t n = b * vectors(r) * r.embedding_dim;
  return w.tape.finish(concatenate(w, "vectors", n, {dense, bags}, {b * r.embedding_dim, n - b * r.embedding_dim}), policy);
}

Layer top(Writer& w, const Recommendation& r, const RecomputePolicy& policy) {
  const std::int64_t b = w.s.batch, all = vectors(r) * r.embedding_dim;
  const TensorId x = w.tape.input(w.bytes(b * all));
  std::int64_t width = all;
  TensorId y = kNoTensor;
  if (r.cross_layers > 0) {
    y = cross(w, r, x);
  } else {
    const TensorId dense = w.activation("dense_vector", b * r.embedding_dim);
    w.stream("dense_vector", StreamKind::kCopy, w.bytes(b * r.embedding_dim), w.bytes(b * r.embedding_dim), 1, {x}, {dense});
    w.tape.on_backward([=, &w] {
      const TensorId dx = w.activation("dense_vector_gradient", b * all);
      w.backward_stream("dense_vector_backward", StreamKind::kCopy, w.bytes(b * r.embedding_dim), w.bytes(b * all), 1, {w.tape.gradient(dense)}, {dx});
      w.tape.add_gradient(x, dx, w.bytes(b * all));
    });
    y = pairs(w, r, x, dense, width);
  }
  return w.tape.finish(tower(w, "top", y, width, r.top, false, true), policy);
}

Layer layer(LayerKind kind, const Model& m, const Training& t, const Shard& shard, const StackKernels& k, const Block& b) {
  Writer w(m, t, shard, k);
  const Recommendation& r = own(m);
  Layer out;
  if (kind == LayerKind::kEmbedding) {
    out = look_up(w, r);
    out.name = "look-up";
  } else if (kind == LayerKind::kHead) {
    const std::int64_t clicks = shard.micro_batch * r.top.back();
    plain_loss(w, "click_loss", w.tape.input(w.bytes(clicks)), clicks);
    out = w.tape.finish(kNoTensor, {});
    out.name = "loss";
  } else {
    out = b.part == 0 ? bottom(w, r, recompute_policy(t, k)) : top(w, r, recompute_policy(t, k));
    out.name = b.part == 0 ? "bottom" : "interaction and top";
  }
  out.parameters = w.parameters;
  return out;
}

std::int64_t entering(const Model& m, const Training& t, const Shard& shard, std::int64_t layer) {
  const Recommendation& r = own(m);
  const std::int64_t elements = layer == 0 ? (vectors(r) - 1) * r.embedding_dim : layer == 1 ? vectors(r) * r.embedding_dim : r.top.back();
  return shard.micro_batch * elements * static_cast<std::int64_t>(element_bytes(t.activation_dtype));
}

double widest(const Model& m, double) {
  const Recommendation& r = own(m);
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  const std::int64_t wide = std::max(*std::max_element(r.bottom.begin(), r.bottom.end()), *std::max_element(r.top.begin(), r.top.end()));
  return d(looked_up(r)) * (d(r.embedding_dim) + 8) + d(vectors(r)) * (d(vectors(r)) + d(r.embedding_dim)) + d(wide) + d(r.dense_features) + d(r.cross_rank);
}

std::vector<Limit> limits(const Model&, const Training& t, const Split& split) {
  std::vector<Limit> out = limits_of_samples("a recommendation model", t, split);
  if (split.pp > 1) out.push_back({"/parallelism/pp", "no framework cuts a recommendation model into pipeline stages; use 1"});
  return out;
}

std::int64_t tables(const Model& m) { return rows(own(m)) * own(m).embedding_dim; }

}  // namespace

const FamilyRow kRecommendationRow{Family::kRecommendation, "recommendation", read, block, layer, entering, widest, limits, one_token, tables, false};

}  // namespace orrery::workload
