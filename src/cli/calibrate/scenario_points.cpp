#include "scenario_points.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "orrery/simulate/simulate.hpp"

namespace orrery::cli {

namespace {

using calibration::Point;
using workload::Axis;

/// A point at the clocks of training.
Point sustained() {
  Point p;
  p.context = "sustained";
  p.from = "scenario";
  return p;
}

Point point_of(const workload::Gemm& g) {
  Point p = sustained();
  p.dtype = workload::to_string(g.in);
  p.m = g.m, p.n = g.n, p.k = g.k, p.batch = g.batch;
  p.layout = g.layout == workload::GemmLayout::kNN ? "nn" : g.layout == workload::GemmLayout::kNT ? "nt" : "tn";
  p.accumulate = g.accumulate;
  p.quantise = "none";
  return p;
}

Point point_of(const workload::Attention& a) {
  Point p = sustained();
  p.kind = Point::Kind::kAttention;
  p.dtype = workload::to_string(a.dtype);
  p.batch = a.batch, p.seq_q = a.seq_q, p.seq_kv = a.seq_kv, p.heads = a.heads, p.kv_heads = a.kv_heads, p.head_dim = a.dim_qk;
  p.causal = a.causal, p.backward = a.backward;
  return p;
}

/// A stream of several kernels is each of them, alike. Its bytes are shared between reads and writes as the kernel that is timed shares them: the model
/// takes a class's time from their sum.
Point point_of(const workload::Stream& s) {
  constexpr std::int64_t kRowBytes = 4096 * sizeof(float);
  Point p = sustained();
  p.kind = Point::Kind::kStream;
  p.stream = workload::to_string(s.kind);
  const std::int64_t bytes = (s.read_bytes + s.write_bytes) / std::max(1, s.kernels);
  const std::int64_t read = p.stream == "elementwise" || p.stream == "cast" ? 2 : p.stream == "optimizer" ? 4 : 1;
  const std::int64_t write = p.stream == "reduce" ? 0 : p.stream == "optimizer" ? 3 : 1;
  // Whole rows, so that every kernel moves what the point says.
  const std::int64_t unit = std::max<std::int64_t>(1, bytes / (read + write) / kRowBytes) * kRowBytes;
  p.read_bytes = read * unit, p.write_bytes = write * unit;
  return p;
}

/// Ranks of rank 0's group on an axis, and the machines they stand on.
struct Group {
  int ranks = 0, nodes = 0;
};
Group group_of(Axis axis, const simulate::Outcome& o) {
  const plan::Coordinates zero = o.grid->coordinates(0);
  const plan::ExpertCoordinates expert_zero = o.grid->expert_coordinates(0);
  const auto in = [&](std::int64_t rank) {
    plan::Coordinates c = o.grid->coordinates(rank);
    plan::ExpertCoordinates e = o.grid->expert_coordinates(rank);
    switch (axis) {
      case Axis::kTp: c.tp = zero.tp; return c == zero;
      case Axis::kCp: c.cp = zero.cp; return c == zero;
      case Axis::kDp: c.dp = zero.dp, c.cp = zero.cp; return c == zero;
      case Axis::kModel: c.tp = zero.tp, c.pp = zero.pp; return c == zero;
      case Axis::kWorld: return true;
      case Axis::kEp: e.ep = expert_zero.ep; return e == expert_zero;
      case Axis::kEtp: e.etp = expert_zero.etp; return e == expert_zero;
      case Axis::kExpertDp: e.expert_dp = expert_zero.expert_dp; return e == expert_zero;
      default: return false;
    }
  };
  Group g;
  std::set<std::int64_t> nodes;
  for (std::int64_t r = 0; r < o.grid->ranks(); ++r)
    if (in(r)) ++g.ranks, nodes.insert(r / o.cluster->gpus_per_node());
  g.nodes = static_cast<int>(nodes.size());
  return g;
}

std::optional<const char*> name_of(workload::CommKind kind) {
  switch (kind) {
    case workload::CommKind::kAllReduce: return "all_reduce";
    case workload::CommKind::kAllGather: return "all_gather";
    case workload::CommKind::kReduceScatter: return "reduce_scatter";
    case workload::CommKind::kAllToAll: return "all_to_all";
    case workload::CommKind::kSendRecv: return "send_recv";
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::vector<Point>> points_of_scenario(const std::string& path) {
  const auto document = document::load_scenario(path, {});
  if (!document) return fail(document.error());
  const auto played = simulate::simulate(*document);
  if (!played) return fail(played.error());
  std::vector<Point> out;
  std::set<std::string> seen;
  const auto add = [&](Point p) {
    if (seen.insert(calibration::key_of(p)).second) out.push_back(std::move(p));
  };
  for (const program::Role& role : played->program->roles)
    for (const program::Segment& segment : role.segments)
      for (const workload::Operation& op : segment.operations) {
        if (const auto* g = std::get_if<workload::Gemm>(&op.work)) add(point_of(*g));
        else if (const auto* a = std::get_if<workload::Attention>(&op.work)) add(point_of(*a));
        else if (const auto* s = std::get_if<workload::Stream>(&op.work)) add(point_of(*s));
        else if (const auto* c = std::get_if<workload::Convolution>(&op.work)) add(point_of(c->implicit_gemm()));
        else if (const auto* e = std::get_if<workload::GroupedGemm>(&op.work))
          for (std::size_t i = 0; i < e->tokens.size(); ++i)
            if (e->tokens[i] > 0) add(point_of(e->group(i)));
      }
  std::map<Axis, Group> groups;
  for (const program::Request& r : played->program->requests) {
    const auto name = name_of(r.kind);
    if (!name || r.bytes <= 0 || workload::with_host(r.axis)) continue;
    if (!groups.contains(r.axis)) groups[r.axis] = group_of(r.axis, *played);
    const Group g = groups[r.axis];
    if (g.ranks < 2) continue;
    Point p = sustained();
    p.kind = Point::Kind::kCollective;
    p.collective = *name;
    p.dtype = "fp32";
    p.ranks = g.ranks, p.nodes = g.nodes;
    // Every rank's share is a whole number of fp32.
    const std::int64_t unit = 4 * static_cast<std::int64_t>(g.ranks);
    p.bytes = std::max(unit, r.bytes / unit * unit);
    add(std::move(p));
  }
  return out;
}

}  // namespace orrery::cli
