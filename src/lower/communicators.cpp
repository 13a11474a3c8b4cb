#include "communicators.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace orrery::lower {

using workload::Axis;

std::vector<Communicator> communicators(const program::Program& program) {
  std::map<std::pair<Axis, program::Stream>, std::vector<std::uint32_t>> found;
  for (const program::Role& role : program.roles) {
    for (const program::Item& item : role.items) {
      if (item.kind != program::ItemKind::kCollective) continue;
      std::vector<std::uint32_t>& list = found[{program.requests[item.index].axis, item.stream}];
      if (std::find(list.begin(), list.end(), item.index) == list.end()) list.push_back(item.index);
    }
  }
  std::vector<Communicator> out;
  for (auto& [key, requests] : found) {
    std::sort(requests.begin(), requests.end());
    out.push_back({key.first, key.second, std::move(requests)});
  }
  return out;
}

}  // namespace orrery::lower
