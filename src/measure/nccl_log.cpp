// A row of nccl-tests (src/common.cu, writeBenchmarkLineBody) is
//   size count type [redop] [root] time algbw busbw wrong [time algbw busbw wrong]
// where redop and root stand only in some layouts, "wrong" was "error" before 2022, and a launcher may put anything before it. The one word that
// never moves against its neighbours is the data type: size and count stand before it, the times after. What a file does not say (collective,
// ranks) follows from ratios: size / (count x element) is the rank count where each rank holds a part, busbw / algbw where all hold the whole.
#include "orrery/measure/nccl_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

namespace orrery::measure {
namespace {

struct Named {
  std::string_view word;
  std::string_view ours;
};
/// nccl-tests' programs and our words for what they measure.
constexpr std::array<Named, 11> kPrograms = {{{"all_reduce", "all_reduce"}, {"all_gather", "all_gather"}, {"reduce_scatter", "reduce_scatter"},
                                             {"alltoallv", "all_to_all_v"}, {"alltoall", "all_to_all"}, {"broadcast", "broadcast"}, {"sendrecv", "send_recv"},
                                             {"hypercube", "hypercube"}, {"scatter", "scatter"}, {"gather", "gather"}, {"reduce", "reduce"}}};

struct Element {
  std::string_view name;
  std::int64_t bytes;
};
/// Names of data types as nccl-tests and rccl-tests print them (common.cu, test_typenames).
constexpr std::array<Element, 16> kElements = {{{"float", 4}, {"half", 2}, {"bfloat16", 2}, {"double", 8}, {"int8", 1}, {"uint8", 1}, {"char", 1},
                                               {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8}, {"f8e4m3", 1}, {"f8e5m2", 1},
                                               {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"int", 4}}};

std::int64_t element_bytes(std::string_view name) {
  const auto e = std::find_if(kElements.begin(), kElements.end(), [&](const Element& k) { return k.name == name; });
  return e == kElements.end() ? 0 : e->bytes;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// "[12]", "[1,0]<stdout>:" and "[1,3]<stderr>:" become blanks: MPI writes them even between the halves of one row.
std::string without_tags(std::string_view line) {
  std::string out(line);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != '[') continue;
    std::size_t end = i + 1;
    while (end < out.size() && (std::isdigit(static_cast<unsigned char>(out[end])) != 0 || out[end] == ',')) ++end;
    if (end == i + 1 || end == out.size() || out[end] != ']') continue;
    ++end;
    if (out.compare(end, 4, "<std") == 0) {
      const std::size_t colon = out.find(':', end);
      if (colon != std::string::npos) end = colon + 1;
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
  return out;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t start = line.find_first_not_of(" \t\r|", i);
    if (start == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r|", start), line.size());
    out.push_back(line.substr(start, end - start));
    i = end;
  }
  return out;
}

/// One row, with what tells its sweep from others.
struct Read {
  NcclRow row;
  std::string dtype, redop, label;
  std::optional<std::int64_t> root;
  bool whole = false;               ///< both halves stand there
  bool in_place_unchecked = false;  ///< "N/A" as the last word: the in-place half has no check
};

/// Whether a time at word i and an algbw after it belong to that size: algbw is bytes / time, printed with two decimals. A root is whole; so may a
/// time be.
bool fits(const std::vector<std::string_view>& w, std::size_t i, std::int64_t bytes) {
  if (i + 1 >= w.size()) return false;
  const auto time = number<double>(w[i]), algbw = number<double>(w[i + 1]);
  if (!time || !algbw || !(*time > 0)) return false;
  const double expected = static_cast<double>(bytes) / (*time * 1e3);
  return std::abs(*algbw - expected) <= 0.006 + 0.01 * expected;
}

bool has_two_decimals(std::string_view word) {
  const std::size_t point = word.find('.');
  return point != std::string_view::npos && word.size() == point + 3;
}

enum class Shape { kNone, kCut, kRow };

/// kCut: size, count and type stand there, the out-of-place half does not.
Shape read_row(const std::string& line, bool root_column, Read& out) {
  const auto w = words(line);
  std::size_t type = 0;
  while (type < w.size() && element_bytes(w[type]) == 0) ++type;
  if (type == w.size() || type < 2) return Shape::kNone;
  const auto bytes = number<std::int64_t>(w[type - 2]);
  const auto count = number<std::int64_t>(w[type - 1]);
  if (!bytes || !count || *bytes < 0 || *count < 0) return Shape::kNone;
  out.row.bytes = *bytes;
  out.row.count = *count;
  out.dtype = std::string(w[type]);
  for (std::size_t i = 0; i + 2 < type; ++i) out.label += (i > 0 ? " " : "") + std::string(w[i]);
  std::size_t at = type + 1;
  if (at < w.size() && std::isalpha(static_cast<unsigned char>(w[at][0])) != 0 && w[at] != "N/A" && w[at] != "nan" && w[at] != "inf") {
    out.redop = w[at] == "none" ? "" : std::string(w[at]);
    ++at;
  }
  if (at < w.size()) {
    if (const auto root = number<std::int64_t>(w[at]); root && *root >= -1 && (*root == -1 || root_column || (fits(w, at + 1, *bytes) && !fits(w, at, *bytes)))) {
      out.root = *root;
      ++at;
    }
  }
  // busbw as the last word may have lost digits: it has two after the point
  if (w.size() < at + 3 || (w.size() == at + 3 && !has_two_decimals(w[at + 2]))) return Shape::kCut;
  const auto time = number<double>(w[at]), algbw = number<double>(w[at + 1]), busbw = number<double>(w[at + 2]);
  if (!time || !algbw || !busbw || !(*time > 0) || !std::isfinite(*time) || !(*algbw >= 0) || !(*busbw >= 0)) return Shape::kCut;
  out.row.time_us = *time;
  out.row.algbw = *algbw;
  out.row.busbw = *busbw;
  if (w.size() - at >= 6) {
    if (const auto again = number<double>(w[at + 4]); again && *again > 0) out.row.in_place_us = *again;
  }
  out.whole = w.size() - at >= 8;
  out.in_place_unchecked = out.whole && w[at + 7] == "N/A" && w[at + 3] != "N/A";
  return Shape::kRow;
}

/// What is known of the run that prints.
struct Run {
  std::string collective, gpu, version;
  std::set<std::int64_t> ranks;
  std::set<std::string> hosts;
  std::int64_t gpus_per_thread = 1;
  bool heading = false, redop_column = false, root_column = false;
};

/// The last "<word>_perf" of a line, in our words; empty where there is none.
std::string program_named(std::string_view line) {
  std::string found;
  for (std::size_t at = line.find("_perf"); at != std::string_view::npos; at = line.find("_perf", at + 1)) {
    for (const Named& p : kPrograms) {
      if (at >= p.word.size() && line.substr(at - p.word.size(), p.word.size()) == p.word) {
        found = std::string(p.ours);
        break;
      }
    }
  }
  return found;
}

/// "#  Rank  3 Group  0 Pid 7088 on node01 device  3 [0000:65:00] AMD Instinct MI300X"
void read_rank(std::string_view line, Run& run) {
  const auto w = words(line);
  for (std::size_t i = 0; i + 1 < w.size(); ++i) {
    if (w[i] != "Rank") continue;
    const auto rank = number<std::int64_t>(w[i + 1]);
    const std::size_t on = line.find(" on "), device = line.find(" device ");
    if (!rank || on == std::string_view::npos || device == std::string_view::npos || device < on) return;
    run.ranks.insert(*rank);
    const auto host = words(line.substr(on + 4, device - on - 4));
    if (!host.empty()) run.hosts.insert(std::string(host.front()));
    const std::size_t close = line.find("] ", device);
    if (close != std::string_view::npos) {
      std::string_view name = line.substr(close + 2);
      while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back())) != 0) name.remove_suffix(1);
      run.gpu = std::string(name);
    }
    return;
  }
}

/// "# nThread 1 nGpus 8 minBytes 8 ...": 8; 1 where it does not say.
std::int64_t gpus_per_thread(std::string_view line) {
  const auto w = words(line);
  for (std::size_t i = 0; i + 1 < w.size(); ++i) {
    if (w[i] != "nGpus") continue;
    const auto n = number<std::int64_t>(w[i + 1]);
    return n && *n >= 1 && *n <= 1024 ? *n : 1;
  }
  return 1;
}

/// "NCCL version 2.28.7+cuda13.0", "nccl-library=22907".
void read_version(std::string_view line, Run& run) {
  constexpr std::string_view kSpoken = "NCCL version ", kNumber = "nccl-library=";
  if (const std::size_t at = line.find(kSpoken); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + kSpoken.size());
    run.version = std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
  } else if (const std::size_t code = line.find(kNumber); code != std::string_view::npos) {
    const std::string_view rest = line.substr(code + kNumber.size());
    // nccl.h, NCCL_VERSION: major x 10000 + minor x 100 + patch since 2.9
    if (const auto n = number<int>(rest.substr(0, rest.find_first_not_of("0123456789"))); n && *n > 20000) {
      run.version = fmt::format("{}.{}.{}", *n / 10000, *n / 100 % 100, *n % 100);
    }
  }
}

/// Rank counts that busbw / algbw allows, from the rounding of each row's two decimals. Factors: nccl-tests doc/PERFORMANCE.md.
std::pair<double, double> ranks_allowed(const NcclTable& t) {
  double low = 1, high = 1e9;
  const double whole = t.collective == "all_reduce" ? 2.0 : 1.0;  // limit of the factor at many ranks
  for (const NcclRow& r : t.rows) {
    if (r.algbw < 0.1 || r.busbw < 0.05) continue;
    constexpr double kHalf = 0.0051;  // half of the last printed digit
    const double least = (r.busbw - kHalf) / (r.algbw + kHalf), most = (r.busbw + kHalf) / (r.algbw - kHalf);
    low = std::max(low, least >= whole ? 1e9 : whole / (whole - least));
    if (most < whole) high = std::min(high, whole / (whole - most));
  }
  return {low, high};
}

std::int64_t deduce_ranks(const NcclTable& t, const Run& run) {
  const std::int64_t listed = run.ranks.empty() ? 0 : *run.ranks.rbegin() + 1;
  if (listed > 0 && static_cast<std::int64_t>(run.ranks.size()) == listed) return listed;
  const std::int64_t element = element_bytes(t.dtype);
  for (const NcclRow& r : t.rows) {
    if (r.count > 0 && r.bytes > r.count * element && r.bytes % (r.count * element) == 0) return r.bytes / (r.count * element);
  }
  if (t.collective == "broadcast" || t.collective == "reduce") return listed > 1 ? listed : 0;
  if (t.collective == "send_recv") return listed > 1 ? listed : 0;
  const auto [low, high] = ranks_allowed(t);
  if (low > high || high > 1e8) return listed > 1 ? listed : 0;
  const auto first = static_cast<std::int64_t>(std::ceil(low - 1e-9)), last = static_cast<std::int64_t>(std::floor(high + 1e-9));
  if (listed > 1 && listed >= first && listed <= last) return listed;
  if (first == last) return first;
  std::int64_t found = 0;  // the only power of two among them: how most jobs are sized
  for (std::int64_t power = 2; power <= last; power *= 2) {
    if (power < first) continue;
    if (found != 0) return 0;
    found = power;
  }
  return found;
}

/// The columns tell collectives apart: who holds the whole, who reduces, who has a root, whose in-place half cannot be checked.
std::string deduce_collective(const NcclTable& t, const Run& run, std::optional<std::int64_t> root, bool in_place_unchecked) {
  const std::int64_t element = element_bytes(t.dtype);
  bool parts = false, all = true;
  for (const NcclRow& r : t.rows) {
    if (r.count == 0) continue;
    const bool part = r.bytes >= 2 * r.count * element && r.bytes % (r.count * element) == 0;
    parts = parts || part;
    all = all && part;
  }
  if (parts && all && !t.redop.empty()) return "reduce_scatter";
  if (t.redop.empty() && ((parts && all) || (root && *root == -1))) {
    if (in_place_unchecked) return "all_to_all";
    return run.heading && run.redop_column && !run.root_column ? "all_to_all" : "all_gather";  // the old layouts: a blank redop, or no such column
  }
  const bool rooted = root && *root >= 0;
  if (t.redop.empty()) return "broadcast";
  if (rooted) return "reduce";
  return in_place_unchecked ? "send_recv" : "all_reduce";
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  void line(std::string_view text, std::size_t number) {
    const std::string clean = without_tags(text);
    Read read;
    read.row.line = number;
    const Shape shape = read_row(clean, run_.root_column, read);
    if (shape == Shape::kRow) return add(std::move(read));
    if (shape == Shape::kCut) {
      log_.notes.push_back({number, fmt::format("a row of {} bytes is cut short", read.row.bytes)});
      return;
    }
    if (text.find("nThread") != std::string_view::npos) {
      close();
      const std::string collective = run_.collective;
      const std::string version = run_.version;
      run_ = {};
      run_.collective = collective;
      run_.version = version;
      run_.gpus_per_thread = gpus_per_thread(text);
    }
    if (text.find("algbw") != std::string_view::npos) {
      close();
      run_.heading = true;
      run_.redop_column = text.find("redop") != std::string_view::npos;
      run_.root_column = text.find("root") != std::string_view::npos;
    }
    if (const std::string named = program_named(text); !named.empty()) {
      const bool over = text.find("concluded") != std::string_view::npos;
      if (over && run_.collective.empty()) run_.collective = named;
      if (over || !open_.empty()) close();
      run_.collective = over ? "" : named;
    }
    read_rank(text, run_);
    read_version(text, run_);
  }

  Result<NcclLog> end() {
    close();
    if (!log_.tables.empty()) return std::move(log_);
    if (log_.notes.empty()) return fail(file_, "", "no table of nccl-tests: a row starts with size, count and type");
    Diagnostics d;
    for (const NcclNote& n : log_.notes) d.push_back({file_, "", fmt::format("line {}: {}", n.line, n.text)});
    if (d.size() > 20) d.resize(20);
    return fail(std::move(d));
  }

 private:
  struct Open {
    NcclTable table;
    std::optional<std::int64_t> root;
    bool in_place_unchecked = true, whole_rows = false;
    std::size_t restarts_at = 0;  ///< line where the sizes start again within one sweep; 0: nowhere
  };

  void add(Read&& read) {
    const auto same = [&](const Open& o) { return o.table.label == read.label && o.table.dtype == read.dtype && o.table.redop == read.redop && o.root == read.root; };
    auto open = std::find_if(open_.begin(), open_.end(), same);
    if (open == open_.end()) {
      Open fresh;
      fresh.table.label = read.label;
      fresh.table.dtype = read.dtype;
      fresh.table.redop = read.redop;
      fresh.root = read.root;
      open_.push_back(std::move(fresh));
      open = open_.end() - 1;
    }
    if (!open->table.rows.empty() && read.row.bytes < open->table.rows.back().bytes && open->restarts_at == 0) open->restarts_at = read.row.line;
    if (read.row.bytes > 0 && read.whole) {
      open->whole_rows = true;
      open->in_place_unchecked = open->in_place_unchecked && read.in_place_unchecked;
    }
    open->table.rows.push_back(read.row);
  }

  void close() {
    for (Open& open : open_) {
      NcclTable& t = open.table;
      if (open.restarts_at != 0) {
        log_.notes.push_back({open.restarts_at, "the sizes start again without a new heading: several processes print into one log; run one binary built with MPI=1"});
        continue;
      }
      t.collective_named = !run_.collective.empty();
      t.collective = t.collective_named ? run_.collective : deduce_collective(t, run_, open.root, open.whole_rows && open.in_place_unchecked);
      t.ranks = deduce_ranks(t, run_);
      const bool complete = !run_.ranks.empty() && static_cast<std::int64_t>(run_.ranks.size()) == *run_.ranks.rbegin() + 1 && t.ranks == static_cast<std::int64_t>(run_.ranks.size());
      t.nodes = complete ? static_cast<std::int64_t>(run_.hosts.size()) : 0;
      t.gpu = run_.gpu;
      t.gpus_per_thread = run_.gpus_per_thread;
      t.version = run_.version;
      log_.tables.push_back(std::move(t));
    }
    open_.clear();
  }

  const std::string& file_;
  Run run_;
  std::vector<Open> open_;
  NcclLog log_;
};

}  // namespace

Result<NcclLog> parse_nccl_log(std::string_view text, const std::string& file) {
  Reader reader(file);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    reader.line(text.substr(at, end - at), ++number);
    at = end + 1;
  }
  return reader.end();
}

}  // namespace orrery::measure
