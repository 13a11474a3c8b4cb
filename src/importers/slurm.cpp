// Slurm's topology.conf (its manual page of that name): the plugin topology/tree names switches with the nodes or switches below them, several roots being
// a forest; topology/block names blocks of nodes. Neither says how many cables there are: every switch is taken to pass on all that its nodes send.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "importers/fabric_draft.hpp"
#include "importers/lines.hpp"

namespace orrery::importers {
namespace {

constexpr std::size_t kMostNames = 1 << 20;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string lowered(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

/// "rack[0-1]n[08-10,12],login" to its names, with leading zeros kept. False where a bracket or range is broken, or names are too many.
bool expand_one(std::string_view text, std::vector<std::string>& out) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) {
    if (text.find(']') != std::string_view::npos || text.empty()) return false;
    out.emplace_back(text);
    return out.size() <= kMostNames;
  }
  const std::size_t close = text.find(']', open);
  if (close == std::string_view::npos || close == open + 1) return false;
  std::vector<std::string> middles;
  for (std::size_t at = open + 1; at <= close;) {
    const std::size_t end = std::min(text.find(',', at), close);
    const std::string_view range = text.substr(at, end - at);
    const std::size_t dash = range.find('-');
    const auto first = whole(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole(range.substr(dash + 1));
    if (!first || !last || *last < *first || static_cast<std::size_t>(*last - *first) > kMostNames) return false;
    const std::size_t width = range.substr(0, dash).size();
    for (int i = *first; i <= *last; ++i) middles.push_back(fmt::format("{:0{}}", i, width));
    if (middles.size() > kMostNames) return false;
    at = end + 1;
  }
  std::vector<std::string> tails;
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) tails.emplace_back();
  else if (!expand_one(rest, tails)) return false;
  if (middles.size() * tails.size() > kMostNames) return false;
  for (const std::string& m : middles) {
    for (const std::string& t : tails) out.push_back(std::string(text.substr(0, open)) + m + t);
  }
  return out.size() <= kMostNames;
}

std::optional<std::vector<std::string>> expand(std::string_view list) {
  std::vector<std::string> out;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (!expand_one(list.substr(start, i - start), out)) return std::nullopt;
    start = i + 1;
  }
  return out;
}

struct Named {
  std::string name;
  bool block = false;
  int line = 0;
  std::vector<std::string> nodes, switches;
};

struct Conf {
  std::vector<Named> parts;
  Diagnostics problems;
};

Conf read(std::string_view text, const std::string& file, Imported& out) {
  Conf conf;
  std::string held;  // of a line that ends in a backslash
  int held_at = 0;
  for_lines(text, [&](int number, std::string_view raw) {
    std::string_view line = raw.substr(0, raw.find('#'));
    line = trimmed(line);
    if (trimmed(raw).empty()) return;
    ++out.lines;
    if (line.empty() && held.empty()) return;  // a remark
    if (held.empty()) held_at = number;
    const bool more = line.ends_with('\\');
    held += std::string(more ? line.substr(0, line.size() - 1) : line);
    if (more) return;
    const std::string whole_line = std::exchange(held, "");
    Named part;
    part.line = held_at;
    bool any = false, informative = false;
    for (const std::string& word : words(whole_line)) {
      const std::size_t equals = word.find('=');
      const std::string key = lowered(std::string_view(word).substr(0, equals));
      const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (key == "switchname" || key == "blockname") {
        part.name = value;
        part.block = key == "blockname";
        any = !value.empty();
      } else if (key == "nodes" || key == "switches") {
        const auto names = expand(value);
        if (!names) conf.problems.push_back({file, "", fmt::format("line {}: \"{}\" is no list of names such as node[01-16,20]", held_at, shown(value))});
        else (key == "nodes" ? part.nodes : part.switches) = *names;
      } else if (key == "linkspeed" || key == "blocksizes") {
        informative = informative || key == "blocksizes";
        if (key == "linkspeed") out.unread.push_back({held_at, shown(word), "Slurm itself does nothing with it, and its unit is not defined"});
        else out.understood.push_back(fmt::format("blocks are allocated in sizes {}", shown(value)));
      } else {
        out.unread.push_back({held_at, shown(word), "no word of topology.conf"});
      }
    }
    if (any) conf.parts.push_back(std::move(part));
    else if (!informative && (out.unread.empty() || out.unread.back().number != held_at)) out.unread.push_back({held_at, shown(whole_line), "names neither a switch nor a block"});
  });
  return conf;
}

}  // namespace

bool looks_like_slurm(std::string_view text) {
  bool found = false;
  for_lines(text, [&](int, std::string_view line) {
    const std::string start = lowered(trimmed(line).substr(0, 11));
    found = found || start.starts_with("switchname=") || start.starts_with("blockname=");
  });
  return found;
}

Result<Imported> import_slurm(std::string_view text, const std::string& file, const Options& options) {
  Imported out;
  out.format = "Slurm topology.conf";
  const Conf conf = read(text, file, out);
  Diagnostics problems = conf.problems;
  FabricDraft d;
  std::map<std::string, int> number;
  bool blocks = false;
  for (const Named& p : conf.parts) {
    if (!number.emplace(p.name, static_cast<int>(d.switches.size())).second) problems.push_back({file, "", fmt::format("line {}: {} is named twice", p.line, shown(p.name))});
    d.switches.push_back(p.name);
    blocks = blocks || p.block;
  }
  std::map<std::string, int> host;
  std::vector<double> below(d.switches.size(), 0);
  std::vector<std::vector<int>> children(d.switches.size());
  std::vector<int> parents(d.switches.size(), 0);
  for (std::size_t i = 0; i < conf.parts.size() && problems.empty(); ++i) {
    for (const std::string& node : conf.parts[i].nodes) {
      if (!host.emplace(node, static_cast<int>(d.hosts.size())).second) {
        problems.push_back({file, "", fmt::format("line {}: node {} hangs on another switch already", conf.parts[i].line, shown(node))});
        break;
      }
      d.hosts.push_back(node);
      d.host_switch.push_back({static_cast<int>(i)});
      below[i] += 1;
    }
    for (const std::string& name : conf.parts[i].switches) {
      const auto child = number.find(name);
      if (child == number.end()) {
        problems.push_back({file, "", fmt::format("line {}: there is no switch {}", conf.parts[i].line, shown(name))});
        break;
      }
      children[i].push_back(child->second);
      ++parents[static_cast<std::size_t>(child->second)];
    }
  }
  if (!problems.empty()) {
    if (problems.size() > 20) problems.resize(20);
    return fail(std::move(problems));
  }
  // Nodes below every switch, leaves first: what has no child left to count is next.
  std::vector<std::size_t> left(children.size());
  std::vector<std::size_t> ready;
  std::vector<std::vector<std::size_t>> above(children.size());
  for (std::size_t i = 0; i < children.size(); ++i) {
    left[i] = children[i].size();
    if (left[i] == 0) ready.push_back(i);
    for (const int c : children[i]) above[static_cast<std::size_t>(c)].push_back(i);
  }
  std::size_t counted = 0;
  for (; counted < ready.size(); ++counted) {
    const std::size_t s = ready[counted];
    for (const std::size_t up : above[s]) {
      below[up] += below[s];
      if (below[s] > 0 && s != up) d.cables[std::minmax(static_cast<int>(s), static_cast<int>(up))] = below[s] / static_cast<double>(above[s].size());
      if (--left[up] == 0) ready.push_back(up);
    }
  }
  if (counted < children.size()) return fail(file, "", "its switches go round in a circle");
  if (blocks && d.switches.size() > 1) {
    // Blocks share the network above them, which the file does not describe.
    const int root = static_cast<int>(d.switches.size());
    d.switches.emplace_back("above the blocks");
    for (int s = 0; s < root; ++s) d.cables[{s, root}] = std::max(1.0, below[static_cast<std::size_t>(s)]);
  }
  out.taken.push_back("links: as many cables above every switch as it has nodes below, as the file counts none");
  return finish_fabric(std::move(out), d, file, options);
}

}  // namespace orrery::importers
