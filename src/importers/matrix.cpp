// The matrix of `nvidia-smi topo -m`. Columns are separated by tabs or blanks, the heading may carry a terminal's escapes, NICs are called NIC0 or
// mlx5_0, the last columns (affinities) are free text; rows of NICs, the legend and the affinities may be missing. Words: the tool's own legend.
//
// The classes nest (PIX inside PXB inside PHB inside NODE inside SYS), so "joined by at most PXB" is an equivalence on real machines; where a file
// breaks that, the import lists the pairs that come out otherwise. NVLink hides the PCIe path between two GPUs: their NICs, or their stated NUMA
// domains, then say where they stand.
#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "importers/lines.hpp"
#include "importers/wiring.hpp"

namespace orrery::importers {
namespace {

using cluster::Path;
using cluster::PathClass;

constexpr std::size_t kMostDevices = 512;

std::string without_escapes(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && line[i] != 'm') ++i;
      continue;
    }
    out += line[i];
  }
  return out;
}

bool is_gpu(std::string_view word) { return word.starts_with("GPU") && whole(word.substr(3)).has_value(); }

/// Devices of the heading, GPUs before NICs, up to the first word of the affinities.
struct Heading {
  std::vector<std::string> gpus, nics;
  bool numa = false;
};
std::optional<Heading> read_heading(const std::vector<std::string>& w) {
  if (w.empty() || w[0] != "GPU0" || (w.size() > 1 && cluster::read_path_class(w[1]))) return std::nullopt;
  Heading h;
  for (std::size_t i = 0; i < w.size() && w[i] != "CPU" && w[i] != "NUMA" && w[i] != "GPU"; ++i) (is_gpu(w[i]) ? h.gpus : h.nics).push_back(w[i]);
  for (std::size_t i = 0; i + 1 < w.size(); ++i) h.numa = h.numa || (w[i] == "NUMA" && w[i + 1] == "Affinity");
  return h;
}

struct Matrix {
  std::vector<std::vector<PathClass>> paths;  ///< GPUs, then NICs
  std::vector<bool> stated;                   ///< which rows are there
  std::vector<int> numa;                      ///< of GPUs; -1: not stated
};

/// Equivalence classes of devices.
class Sets {
 public:
  explicit Sets(std::size_t n) : of_(n) { std::iota(of_.begin(), of_.end(), 0); }
  [[nodiscard]] int find(std::size_t i) const {
    int at = static_cast<int>(i);
    while (of_[static_cast<std::size_t>(at)] != at) at = of_[static_cast<std::size_t>(at)];
    return at;
  }
  void join(std::size_t a, std::size_t b) {
    const int low = std::min(find(a), find(b)), high = std::max(find(a), find(b));
    of_[static_cast<std::size_t>(high)] = low;
  }

 private:
  std::vector<int> of_;
};

Sets joined(const Matrix& m, Path most) {
  Sets sets(m.paths.size());
  for (std::size_t a = 0; a < m.paths.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Path p = m.paths[a][b].path;
      if (p != Path::kSelf && p != Path::kNvLink && p <= most) sets.join(a, b);
    }
  }
  return sets;
}

/// Sockets that NVLink alone joins are one where their NUMA domains are the same or not stated, unless some pair of theirs says SYS.
void join_hidden(const Matrix& m, Sets& sockets) {
  const std::size_t gpus = m.numa.size();
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (sockets.find(a) == sockets.find(b) || m.numa[a] != m.numa[b]) continue;
      bool apart = false;
      for (std::size_t i = 0; i < m.paths.size() && !apart; ++i) {
        for (std::size_t j = 0; j < m.paths.size() && !apart; ++j) {
          apart = sockets.find(i) == sockets.find(a) && sockets.find(j) == sockets.find(b) && m.paths[i][j].path != Path::kNvLink;
        }
      }
      if (!apart) sockets.join(a, b);
    }
  }
}

/// Whether NVLink goes through switches: all pairs of three or more GPUs alike, with more links than a GPU could have for each.
bool through_switch(const Matrix& m) {
  constexpr int kMostLinks = 18;  // of a GPU: Hopper and Blackwell
  const std::size_t gpus = m.numa.size();
  if (gpus < 3 || m.paths[0][1].path != Path::kNvLink) return false;
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < gpus; ++b) {
      if (a != b && m.paths[a][b] != m.paths[0][1]) return false;
    }
  }
  return m.paths[0][1].links * (static_cast<int>(gpus) - 1) > kMostLinks;
}

Wiring wire(const Matrix& m) {
  Wiring w;
  const std::size_t gpus = m.numa.size(), all = m.paths.size();
  w.through_switch = through_switch(m);
  if (w.through_switch) w.links = m.paths[0][1].links;
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = a + 1; b < gpus; ++b) {
      if (m.paths[a][b].path == Path::kNvLink) w.cables.push_back({static_cast<int>(a), static_cast<int>(b), m.paths[a][b].links});
    }
  }
  const Sets inner = joined(m, Path::kPix), outer = joined(m, Path::kPxb), bridges = joined(m, Path::kPhb);
  Sets sockets = joined(m, Path::kNode);
  join_hidden(m, sockets);
  std::vector<int> switch_of(all, -1);  // by the first device of a PIX class, then of a PXB class
  std::vector<int> above(all, -1);
  for (std::size_t i = 0; i < all; ++i) {
    const auto root = static_cast<std::size_t>(outer.find(i)), leaf = static_cast<std::size_t>(inner.find(i));
    bool several = false, alone = true;
    for (std::size_t j = 0; j < all; ++j) {
      several = several || (outer.find(j) == outer.find(i) && inner.find(j) != inner.find(i));
      alone = alone && (j == i || outer.find(j) != outer.find(i));
    }
    Place place{-1, bridges.find(i), sockets.find(i)};
    if (!alone) {
      if (several && above[root] < 0) {
        above[root] = static_cast<int>(w.switch_parent.size());
        w.switch_parent.push_back(-1);
      }
      if (switch_of[leaf] < 0) {
        switch_of[leaf] = static_cast<int>(w.switch_parent.size());
        w.switch_parent.push_back(above[root]);
      }
      place.pcie_switch = switch_of[leaf];
    }
    (i < gpus ? w.gpus : w.nics).push_back(place);
  }
  // The device whose number of links this is, as far as numbers tell: 18 Hopper, 12 Ampere, 4 a bridge of two GeForce cards, fewer Volta.
  int most = 0;
  for (const Wiring::Cable& c : w.cables) most = std::max(most, c.links);
  w.gpu = w.through_switch ? (most > 12 ? "h100-sxm5-80gb" : most > 6 ? "a100-sxm4-80gb" : "v100-sxm2-32gb")
          : most >= 12     ? "a100-pcie-80gb"
          : most == 4      ? "rtx-3090"
          : most > 0       ? "v100-sxm2-32gb"
                           : "l40s";
  return w;
}

Diagnostics asymmetries(const Matrix& m, const std::vector<std::string>& names, const std::string& file) {
  Diagnostics out;
  constexpr std::size_t kMost = 20;
  for (std::size_t a = 0; a < names.size() && out.size() < kMost; ++a) {
    const PathClass self = m.paths[a][a];
    if (self.path != Path::kSelf) out.push_back({file, "", fmt::format("{} to {} is {}; X stands for a device and itself", names[a], names[a], to_string(self))});
    for (std::size_t b = a + 1; b < names.size() && out.size() < kMost; ++b) {
      if (m.paths[a][b] == m.paths[b][a]) continue;
      out.push_back({file, "", fmt::format("{} to {} is {}, but back it is {}", names[a], names[b], to_string(m.paths[a][b]), to_string(m.paths[b][a]))});
    }
  }
  return out;
}

}  // namespace

bool looks_like_matrix(std::string_view text) {
  bool found = false;
  for_lines(text, [&](int, std::string_view line) { found = found || read_heading(words(without_escapes(line))).has_value(); });
  return found;
}

Result<Imported> import_matrix(std::string_view text, const std::string& file, const Options& options) {
  Imported out;
  out.format = "nvidia-smi topo -m";
  Matrix m;
  std::optional<Heading> heading;
  std::vector<std::string> names;
  Diagnostics problems;
  bool legend = false;
  std::size_t next = 0;
  for_lines(text, [&](int number, std::string_view raw) {
    const std::string line = without_escapes(raw);
    const auto w = words(line);
    if (w.empty()) return;
    ++out.lines;
    if (!heading) {
      heading = read_heading(w);
      if (!heading) {
        out.unread.push_back({number, shown(line), "before the matrix"});
        return;
      }
      names = heading->gpus;
      names.insert(names.end(), heading->nics.begin(), heading->nics.end());
      if (names.size() > kMostDevices) problems.push_back({file, "", fmt::format("line {}: {} devices in one node are out of range; {} at most", number, names.size(), kMostDevices)});
      m.paths.assign(std::min(names.size(), kMostDevices), std::vector<PathClass>(names.size()));
      m.stated.assign(names.size(), false);
      m.numa.assign(heading->gpus.size(), -1);
      return;
    }
    if (!problems.empty() && names.size() > kMostDevices) return;
    const std::size_t at = static_cast<std::size_t>(std::find(names.begin(), names.end(), w[0]) - names.begin());
    if (at == names.size() || legend) {
      legend = legend || w[0] == "Legend:" || w[0] == "NIC";
      const bool known = legend && (w.size() == 1 || w[0] == "NIC" || w[1] == "=" || w[0].ends_with(":") || cluster::read_path_class(w[0]));
      if (!known) out.unread.push_back({number, shown(line), "neither a device of the heading nor the legend"});
      return;
    }
    if (at != next) {
      problems.push_back({file, "", fmt::format("line {}: {} comes out of order", number, w[0])});
      return;
    }
    ++next;
    if (w.size() < names.size() + 1) {
      problems.push_back({file, "", fmt::format("line {}: {} has {} cells; the heading names {} devices", number, w[0], w.size() - 1, names.size())});
      return;
    }
    m.stated[at] = true;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto path = cluster::read_path_class(w[i + 1]);
      if (!path) problems.push_back({file, "", fmt::format("line {}: \"{}\" is no path; known are X, NV#, PIX, PXB, PHB, NODE, SYS", number, shown(w[i + 1]))});
      m.paths[at][i] = path.value_or(PathClass{});
    }
    // After the matrix: CPU affinity, then the NUMA domain.
    if (at < m.numa.size() && heading->numa && w.size() > names.size() + 2) m.numa[at] = whole(w[names.size() + 2]).value_or(-1);
  });
  if (!heading) return fail(file, "", "no matrix of nvidia-smi topo -m: its heading starts with GPU0");
  const auto rows = static_cast<std::size_t>(std::count(m.stated.begin(), m.stated.end(), true));
  const std::size_t gpus = heading->gpus.size();
  if (problems.empty() && rows < gpus) problems.push_back({file, "", fmt::format("{} rows of GPUs, but the heading names {}", rows, gpus)});
  if (!problems.empty()) return fail(std::move(problems));
  // Without rows of NICs (before driver 450 or cut away) their columns stand; between two of them nothing is known.
  for (std::size_t a = gpus; a < names.size(); ++a) {
    if (m.stated[a]) continue;
    for (std::size_t b = 0; b < names.size(); ++b) m.paths[a][b] = a == b ? PathClass{Path::kSelf, 0} : b < gpus ? m.paths[b][a] : PathClass{};
    for (std::size_t b = gpus; b < a; ++b) m.paths[b][a] = m.paths[a][b];
  }
  if (problems = asymmetries(m, names, file); !problems.empty()) return fail(std::move(problems));
  out.gpus = heading->gpus;
  out.nics = heading->nics;
  out.paths = m.paths;
  if (options.gpu.empty()) out.taken.push_back(fmt::format("gpu: {}, by the number of its links; the matrix has no names (--gpu)", wire(m).gpu));
  return finish(std::move(out), wire(m), file, options);
}

}  // namespace orrery::importers
