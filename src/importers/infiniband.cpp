// Listings of an InfiniBand fabric (infiniband-diags): ibnetdiscover, with a section for each switch and host adapter, and iblinkinfo, with a line for
// each port. Both tell a cable from either end; what only one end lists counts as well, so that a listing cut to some switches still imports.
// SHARP's aggregation nodes hang on a port of a switch like a host and are none.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "importers/fabric_draft.hpp"
#include "importers/lines.hpp"

namespace orrery::importers {
namespace {

constexpr std::size_t kMostEnds = 1 << 20;

/// Gb/s of "4xNDR" by the lane: the names and rates of the InfiniBand Trade Association's roadmap; 0: no rate.
double rate_of(std::string_view word) {
  constexpr std::pair<std::string_view, double> kLane[] = {{"SDR", 2}, {"DDR", 4}, {"QDR", 8}, {"FDR10", 10}, {"FDR", 14}, {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
  const std::size_t x = word.find('x');
  const auto lanes = x == std::string_view::npos ? std::nullopt : whole(word.substr(0, x));
  if (!lanes) return 0;
  for (const auto& [name, lane] : kLane) {
    if (word.substr(x + 1) == name) return lane * *lanes;
  }
  return 0;
}

/// The same of "4X 106.25 Gbps": signalling rates, a little above what the names promise.
double rate_of_lanes(int lanes, double signal) {
  for (const double lane : {200.0, 100.0, 50.0, 25.0, 14.0, 10.0, 8.0, 4.0, 2.0}) {
    if (signal >= lane) return lane * lanes;
  }
  return 0;
}

/// What stands between the first pair of quotes at or after `from`; moves `from` behind it.
std::optional<std::string> quoted(std::string_view line, std::size_t& from) {
  const std::size_t first = line.find('"', from);
  const std::size_t last = first == std::string_view::npos ? first : line.find('"', first + 1);
  if (last == std::string_view::npos) return std::nullopt;
  from = last + 1;
  return std::string(line.substr(first + 1, last - first - 1));
}

/// The number in [..] at `from`; moves behind it.
std::optional<int> bracketed(std::string_view line, std::size_t& from) {
  if (from >= line.size() || line[from] != '[') return std::nullopt;
  const std::size_t end = line.find(']', from);
  if (end == std::string_view::npos) return std::nullopt;
  const auto n = whole(trimmed(line.substr(from + 1, end - from - 1)));
  from = end + 1;
  return n;
}

/// Ends of cables by key (GUID or LID), whatever order they come in.
class Fabric {
 public:
  struct End {
    bool is_switch = false;
    std::string name;
    int ports = 0;
  };

  End& end(const std::string& key) {
    const auto [found, added] = ends_.try_emplace(key);
    if (added) order_.push_back(key);
    return found->second;
  }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  /// A cable from a port to another, from either end.
  void cable(const std::string& a, int port_a, const std::string& b, int port_b, double gbit) {
    const auto low = std::min(std::pair(a, port_a), std::pair(b, port_b)), high = std::max(std::pair(a, port_a), std::pair(b, port_b));
    cables_.try_emplace({low, high}, gbit);
  }

  [[nodiscard]] FabricDraft draft(Imported& out) {
    FabricDraft d;
    std::map<std::string, int> number;
    for (const std::string& key : order_) {
      const End& e = ends_.at(key);
      if (!e.is_switch) continue;
      number.emplace(key, static_cast<int>(d.switches.size()));
      d.switches.push_back(e.name.empty() ? key : e.name);
      d.switch_ports = std::max(d.switch_ports, e.ports);
    }
    // The line rate is that of most ports of hosts.
    std::map<double, int> rates;
    for (const auto& [ends, gbit] : cables_) {
      if (gbit > 0 && !(is_switch(ends.first.first) && is_switch(ends.second.first))) ++rates[gbit];
    }
    for (const auto& [gbit, count] : rates) {
      if (count > (d.link_gbit_per_s > 0 ? rates[d.link_gbit_per_s] : 0)) d.link_gbit_per_s = gbit;
    }
    std::map<std::string, std::vector<std::pair<std::string, int>>> hosts;  // ports by name of the adapter
    std::vector<std::string> host_order;
    std::size_t nameless = 0;
    for (const auto& [ends, gbit] : cables_) {
      const std::string &a = ends.first.first, &b = ends.second.first;
      if (is_switch(a) && is_switch(b)) {
        const auto pair = std::minmax(number.at(a), number.at(b));
        if (pair.first != pair.second) d.cables[pair] += d.link_gbit_per_s > 0 && gbit > 0 ? gbit / d.link_gbit_per_s : 1;
        continue;
      }
      const std::string& host = is_switch(a) ? b : a;
      if (is_switch(host)) continue;
      const std::string& name = ends_.at(host).name;
      if (name.find("Aggregation Node") != std::string::npos) {
        d.reduces = true;
        continue;
      }
      const int at = is_switch(a) ? number.at(a) : is_switch(b) ? number.at(b) : -1;
      if (at < 0) continue;
      // "node001 mlx5_5" names a host and its adapter; a bare model name ("MT4129 ConnectX7 ...") neither.
      const auto parts = words(name);
      const bool named = parts.size() == 2;
      nameless += named ? 0 : 1;
      const std::string machine = named ? parts[0] : "port " + host;
      if (!hosts.contains(machine)) host_order.push_back(machine);
      hosts[machine].emplace_back(named ? parts[1] : "", at);
    }
    std::sort(host_order.begin(), host_order.end());
    for (const std::string& machine : host_order) {
      auto& ports = hosts.at(machine);
      std::sort(ports.begin(), ports.end());
      d.hosts.push_back(machine);
      d.host_switch.emplace_back();
      for (const auto& [adapter, at] : ports) d.host_switch.back().push_back(at);
    }
    if (nameless > 0) out.taken.push_back(fmt::format("hosts: {} ports whose adapter is not named after a host are hosts of their own", nameless));
    if (d.reduces) out.understood.push_back("SHARP: aggregation nodes on the switches");
    return d;
  }

 private:
  [[nodiscard]] bool is_switch(const std::string& key) const { return ends_.at(key).is_switch; }

  using Port = std::pair<std::string, int>;
  std::map<std::string, End> ends_;
  std::vector<std::string> order_;
  std::map<std::pair<Port, Port>, double> cables_;
};

}  // namespace

bool looks_like_ibnetdiscover(std::string_view text) {
  return text.find("\"S-") != std::string_view::npos && (text.starts_with("Switch") || text.find("\nSwitch") != std::string_view::npos);
}

Result<Imported> import_ibnetdiscover(std::string_view text, const std::string& file, const Options& options) {
  Imported out;
  out.format = "ibnetdiscover";
  Fabric fabric;
  std::string owner;
  for_lines(text, [&](int number, std::string_view raw) {
    const std::string_view line = trimmed(raw);
    if (line.empty() || fabric.size() > kMostEnds) return;
    ++out.lines;
    const auto unread = [&](const char* why) { out.unread.push_back({number, shown(line), why}); };
    constexpr std::string_view kIds[] = {"#", "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="};
    if (std::any_of(std::begin(kIds), std::end(kIds), [&](std::string_view id) { return line.starts_with(id); })) return;
    std::size_t at = 0;
    if (line.starts_with("Switch") || line.starts_with("Ca")) {
      const bool is_switch = line.starts_with("Switch");
      const auto guid = quoted(line, at);
      if (!guid) return unread("a section without its \"GUID\"");
      owner = *guid;
      Fabric::End& e = fabric.end(owner);
      e.is_switch = is_switch;
      const auto w = words(line);
      // The last port of a switch with SHARP is its own aggregation node: 65 of a QM9700 are 64 and that one.
      e.ports = w.size() > 1 ? whole(w[1]).value_or(0) / 2 * 2 : 0;
      e.name = quoted(line, at).value_or("");
      return;
    }
    const auto port = bracketed(line, at);
    if (!port) return unread("neither a section nor a port");
    if (owner.empty()) return unread("a port before its section");
    if (at < line.size() && line[at] == '(') at = line.find(')', at) == std::string_view::npos ? line.size() : line.find(')', at) + 1;
    const auto peer = quoted(line, at);
    const auto peer_port = peer ? bracketed(line, at) : std::nullopt;
    if (!peer || !peer_port || peer->size() < 3) return unread("a port without its \"peer\"[port]");
    Fabric::End& e = fabric.end(*peer);
    e.is_switch = peer->starts_with("S-");
    const std::size_t comment = line.find('#', at);
    std::size_t name_at = comment == std::string_view::npos ? line.size() : comment;
    const std::string name = quoted(line, name_at).value_or("");
    if (e.name.empty()) e.name = name;
    const auto w = words(line);
    const double gbit = rate_of(w.back());
    if (!(gbit > 0)) unread("no rate at its end, as in 4xNDR; the cable counts as one of the others");
    fabric.cable(owner, *port, *peer, *peer_port, gbit);
  });
  if (fabric.size() > kMostEnds) return fail(file, "", fmt::format("more than {} switches and hosts; this is no fabric", kMostEnds));
  const FabricDraft draft = fabric.draft(out);
  return finish_fabric(std::move(out), draft, file, options);
}

bool looks_like_iblinkinfo(std::string_view text) { return text.find("==(") != std::string_view::npos && text.find(")==>") != std::string_view::npos; }

/// "  73    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>     647    1[  ] \"node001 mlx5_5\" ( )" below "Switch: 0x... NAME:" or "CA: NAME:".
Result<Imported> import_iblinkinfo(std::string_view text, const std::string& file, const Options& options) {
  Imported out;
  out.format = "iblinkinfo";
  Fabric fabric;
  bool in_switch = false;
  std::string section;
  std::set<std::string> switch_names;
  // Names of switches first: a peer is told by its name alone.
  for_lines(text, [&](int, std::string_view raw) {
    const std::string_view line = trimmed(raw);
    if (!line.starts_with("Switch:")) return;
    const auto w = words(line);
    std::string name;
    for (std::size_t i = w.size() > 1 && w[1].starts_with("0x") ? 2 : 1; i < w.size(); ++i) name += (name.empty() ? "" : " ") + w[i];
    if (name.ends_with(':')) name.pop_back();
    switch_names.insert(name);
  });
  for_lines(text, [&](int number, std::string_view raw) {
    const std::string_view line = trimmed(raw);
    if (line.empty() || fabric.size() > kMostEnds) return;
    ++out.lines;
    const auto unread = [&](const char* why) { out.unread.push_back({number, shown(line), why}); };
    if (line.starts_with("#")) return;
    if (line.starts_with("Switch:") || line.starts_with("CA:")) {
      in_switch = line.starts_with("Switch:");
      const auto w = words(line);
      section.clear();
      for (std::size_t i = w.size() > 1 && w[1].starts_with("0x") ? 2 : 1; i < w.size(); ++i) section += (section.empty() ? "" : " ") + w[i];
      if (section.ends_with(':')) section.pop_back();
      return;
    }
    const std::size_t open = line.find("==("), close = line.find(")==>");
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return unread("neither a section nor a port");
    auto left = words(line.substr(0, open));
    if (!left.empty() && left.front().starts_with("0x")) left.erase(left.begin());
    const std::string_view state = line.substr(open + 3, close - open - 3);
    if (state.find("LinkUp") == std::string_view::npos) return;  // nothing is plugged in
    const auto about = words(state);
    const auto lanes = about.empty() || !about[0].ends_with('X') ? std::nullopt : whole(std::string_view(about[0]).substr(0, about[0].size() - 1));
    double signal = 0;
    if (about.size() > 1) signal = std::strtod(about[1].c_str(), nullptr);
    const auto right = words(line.substr(close + 4));
    std::size_t at = close;
    const auto peer = quoted(line, at);
    const auto port_of = [](const std::string& word) { return whole(std::string_view(word).substr(0, word.find('['))); };
    const auto lid = left.empty() ? std::nullopt : whole(left[0]), port = left.size() < 2 ? std::nullopt : port_of(left[1]);
    const auto peer_lid = right.empty() ? std::nullopt : whole(right[0]), peer_port = right.size() < 2 ? std::nullopt : port_of(right[1]);
    if (!lid || !port || !peer_lid || !peer_port || !peer) return unread("a link without LID and port at both ends");
    const int own_port = port.value_or(0);
    const std::string here = fmt::format("lid {}", *lid), there = fmt::format("lid {}", *peer_lid);
    Fabric::End& own = fabric.end(here);
    if (own.name.empty()) own.name = section;
    own.is_switch = own.is_switch || in_switch;
    own.ports = std::max(own.ports, in_switch ? (own_port + 1) / 2 * 2 : 0);
    Fabric::End& other = fabric.end(there);
    if (other.name.empty()) other.name = *peer;
    // Managed switches call themselves MF0;NAME:MODEL (MLNX-OS).
    other.is_switch = other.is_switch || switch_names.contains(*peer) || peer->starts_with("MF0;");
    const double gbit = lanes ? rate_of_lanes(*lanes, signal) : 0;
    if (!(gbit > 0)) unread("no rate, as in 4X 106.25 Gbps; the cable counts as one of the others");
    fabric.cable(here, own_port, there, peer_port.value_or(0), gbit);
  });
  if (fabric.size() > kMostEnds) return fail(file, "", fmt::format("more than {} switches and hosts; this is no fabric", kMostEnds));
  const FabricDraft draft = fabric.draft(out);
  return finish_fabric(std::move(out), draft, file, options);
}

}  // namespace orrery::importers
