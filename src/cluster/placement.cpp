#include "orrery/cluster/placement.hpp"

#include <fmt/format.h>

namespace orrery::cluster {

Result<Placement> read_placement(const document::Value& v, std::int64_t ranks, std::int64_t nodes, std::int64_t gpus_per_node, const std::string& file,
                                 const std::string& pointer) {
  Placement p;
  if (v.is_null() || (v.is_string() && v.as_string() == "packed")) return p;
  std::vector<std::int64_t>& of = p.gpu_of_rank;
  std::vector<std::int64_t> order;  // of nodes
  std::int64_t turn = gpus_per_node;
  for (std::int64_t n = 0; n < nodes; ++n) order.push_back(n);
  if (v.is_string()) {
    turn = 1;
  } else if (const document::Value& plane = v.at("plane"); !plane.is_null()) {
    turn = plane.as_int();
  } else if (const document::Value& list = v.at("nodes"); !list.is_null()) {
    order.clear();
    for (const document::Value& n : list.items()) order.push_back(n.as_int());
  } else {
    const auto& list_of_ranks = v.at("ranks").items();
    if (static_cast<std::int64_t>(list_of_ranks.size()) < ranks) {
      return fail(file, pointer + "/ranks", fmt::format("{} places for {} ranks; give each rank its [node, GPU]", list_of_ranks.size(), ranks));
    }
    for (const document::Value& place : list_of_ranks) {
      const std::int64_t node = place.items()[0].as_int(), gpu = place.items()[1].as_int();
      const std::string at = fmt::format("{}/ranks/{}", pointer, of.size());
      if (node >= nodes || gpu >= gpus_per_node) return fail(file, at, fmt::format("there is no GPU {} of node {}; nodes 0 to {}, GPUs 0 to {}", gpu, node, nodes - 1, gpus_per_node - 1));
      of.push_back(node * gpus_per_node + gpu);
    }
  }
  if (of.empty()) {
    std::vector<std::int64_t> used(static_cast<std::size_t>(nodes), 0);
    for (const std::int64_t n : order) {
      if (n >= nodes) return fail(file, pointer + "/nodes", fmt::format("there is no node {}; 0 to {}", n, nodes - 1));
      if (used[static_cast<std::size_t>(n)]++ > 0) return fail(file, pointer + "/nodes", fmt::format("node {} is listed twice", n));
    }
    if (static_cast<std::int64_t>(order.size()) * gpus_per_node < ranks) {
      return fail(file, pointer + "/nodes", fmt::format("{} nodes with {} GPUs each hold no {} ranks; list more", order.size(), gpus_per_node, ranks));
    }
    used.assign(used.size(), 0);
    while (static_cast<std::int64_t>(of.size()) < ranks) {
      for (const std::int64_t n : order) {
        std::int64_t& taken = used[static_cast<std::size_t>(n)];
        for (std::int64_t i = 0; i < turn && taken < gpus_per_node && static_cast<std::int64_t>(of.size()) < ranks; ++i) of.push_back(n * gpus_per_node + taken++);
      }
    }
  }
  std::vector<bool> taken(static_cast<std::size_t>(nodes * gpus_per_node), false);
  for (std::size_t r = 0; r < of.size(); ++r) {
    if (taken[static_cast<std::size_t>(of[r])]) return fail(file, fmt::format("{}/ranks/{}", pointer, r), fmt::format("GPU {} of node {} has a rank already", of[r] % gpus_per_node, of[r] / gpus_per_node));
    taken[static_cast<std::size_t>(of[r])] = true;
  }
  return p;
}

}  // namespace orrery::cluster
