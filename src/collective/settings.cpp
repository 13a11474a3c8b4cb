// NCCL_ALGO and NCCL_PROTO. NCCL reads a list of names, "^" before it to mean all others, and since 2.24 a list a function: "allreduce:tree;ring"
// (user guide, "Environment variables"; src/graph/tuning.cc, parseList). Names are not case-sensitive. Exchanges between pairs have no algorithm and
// no protocol to choose, so all-to-all and send/receive are as they were.
#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "collective/registry.hpp"
#include "collective/tables.hpp"
#include "orrery/base/text.hpp"

namespace orrery::collective {
namespace {

constexpr std::size_t kKinds = 7;

struct Name {
  std::string_view word;
  std::size_t index;
};
constexpr std::array<Name, 7> kAlgorithmNames = {{{"tree", static_cast<std::size_t>(Algorithm::kTree)},
                                                 {"ring", static_cast<std::size_t>(Algorithm::kRing)},
                                                 {"collnetdirect", static_cast<std::size_t>(Algorithm::kCollNetDirect)},
                                                 {"collnetchain", static_cast<std::size_t>(Algorithm::kCollNetChain)},
                                                 {"nvls", static_cast<std::size_t>(Algorithm::kNvls)},
                                                 {"nvlstree", static_cast<std::size_t>(Algorithm::kNvlsTree)},
                                                 {"pat", static_cast<std::size_t>(Algorithm::kPat)}}};
constexpr std::array<Name, 3> kProtocolNames = {{{"ll", static_cast<std::size_t>(Protocol::kLL)},
                                                {"ll128", static_cast<std::size_t>(Protocol::kLL128)},
                                                {"simple", static_cast<std::size_t>(Protocol::kSimple)}}};
constexpr std::array<Name, 5> kFunctionNames = {{{"broadcast", static_cast<std::size_t>(Kind::kBroadcast)},
                                                {"reduce", static_cast<std::size_t>(Kind::kReduce)},
                                                {"allgather", static_cast<std::size_t>(Kind::kAllGather)},
                                                {"reducescatter", static_cast<std::size_t>(Kind::kReduceScatter)},
                                                {"allreduce", static_cast<std::size_t>(Kind::kAllReduce)}}};

template <std::size_t N>
const Name* find(const std::array<Name, N>& names, std::string_view word) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name& n) { return n.word == word; });
  return found == names.end() ? nullptr : &*found;
}

template <std::size_t N>
std::string unknown(const std::array<Name, N>& names, std::string_view word, std::string_view what) {
  std::vector<std::string> known;
  std::string all;
  for (const Name& n : names) {
    known.emplace_back(n.word);
    all += (all.empty() ? "" : ", ") + std::string(n.word);
  }
  return fmt::format("unknown {} \"{}\"{}; known are {}", what, word, did_you_mean(word, known), all);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Bits of one list; the others where it starts with "^".
template <class Bits, std::size_t N>
std::string read_list(std::string_view list, const std::array<Name, N>& names, std::string_view what, Bits& bits) {
  const bool others = list.starts_with('^');
  if (others) list.remove_prefix(1);
  unsigned listed = 0, all = 0;
  for (const Name& n : names) all |= 1U << n.index;
  for (const std::string_view word : split(list, ',')) {
    const Name* n = find(names, word);
    if (n == nullptr) return unknown(names, word, what);
    listed |= 1U << n->index;
  }
  const unsigned kept = others ? all & ~listed : listed;
  bits = static_cast<Bits>((static_cast<unsigned>(static_cast<Bits>(~0U)) & ~all) | kept);  // what has no name here is not limited
  return "";
}

template <class Bits, std::size_t N>
std::string limit(std::string_view text, const std::array<Name, N>& names, std::string_view what, std::array<Bits, kKinds>& of_kind) {
  std::string lower;
  for (const char c : text) {
    if (c != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::array<Bits, kKinds> out = of_kind;
  for (const std::string_view part : split(lower, ';')) {
    const std::size_t colon = part.find(':');
    Bits bits{};
    if (std::string problem = read_list(colon == std::string_view::npos ? part : part.substr(colon + 1), names, what, bits); !problem.empty()) return problem;
    if (colon == std::string_view::npos) {
      for (const Name& function : kFunctionNames) out[function.index] = bits;
      continue;
    }
    const Name* function = find(kFunctionNames, part.substr(0, colon));
    if (function == nullptr) return unknown(kFunctionNames, part.substr(0, colon), "function");
    out[function->index] = bits;
  }
  of_kind = out;
  return "";
}

bool listed(Kind kind, Algorithm algorithm, Protocol protocol, const Nccl& nccl) {
  const auto k = static_cast<std::size_t>(kind);
  return (std::uint32_t{nccl.algorithms[k]} >> static_cast<unsigned>(algorithm) & 1U) != 0 && (std::uint32_t{nccl.protocols[k]} >> static_cast<unsigned>(protocol) & 1U) != 0;
}

}  // namespace

std::string limit_algorithms(std::string_view text, Nccl& nccl) { return limit(text, kAlgorithmNames, "algorithm", nccl.algorithms); }
std::string limit_protocols(std::string_view text, Nccl& nccl) { return limit(text, kProtocolNames, "protocol", nccl.protocols); }

Nccl unlimited(const Nccl& nccl) {
  Nccl out;
  out.version = nccl.version;
  return out;
}

double channel_gb_per_s(const Shape& shape, const Nccl& nccl) { return bandwidth_cap(Cap::kTree, shape, nccl); }

bool permitted(Kind kind, Algorithm algorithm, Protocol protocol, const Shape& shape, const Nccl& nccl) {
  if (listed(kind, algorithm, protocol, nccl)) return true;
  for (const AlgorithmRow& row : algorithms()) {
    for (const Protocol p : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
      if (listed(kind, row.algorithm, p, nccl) && row.possible(kind, p, shape, nccl)) return false;
    }
  }
  return true;
}

}  // namespace orrery::collective
