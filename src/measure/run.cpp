// The loop over points: the same for every back end, and for one process or several.
#include "orrery/measure/run.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>

#include "measure/backends.hpp"
#include "orrery/base/random.hpp"

namespace orrery::measure {
namespace {

using calibration::Point;
using Clock = std::chrono::steady_clock;

constexpr double kSaveEvery = 5;  ///< seconds

/// What names a point here: burst and sustained are two.
std::string name_of(const Point& p) { return fmt::format("{} {}", calibration::key_of(p), p.context); }

/// Points without doubles in a drawn order: what drifts (clocks, neighbours) then hits all shapes alike.
std::vector<Point> drawn(std::vector<Point> points, std::uint64_t seed) {
  std::set<std::string> seen;
  std::vector<std::pair<std::uint64_t, Point>> keyed;
  for (Point& p : points) {
    p.time_us.clear();
    if (seen.insert(name_of(p)).second) keyed.emplace_back(random_bits(seed, "order", keyed.size()), std::move(p));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Point> out;
  for (auto& [key, p] : keyed) out.push_back(std::move(p));
  return out;
}

/// The first member of the environment that differs, "" where none does. A later day is no other machine.
std::string difference(const calibration::MeasurementSet& was, const calibration::MeasurementSet& now) {
  std::map<std::string, std::string> old(was.environment.begin(), was.environment.end());
  for (const auto& [name, value] : now.environment)
    if (name != "date" && old[name] != value) return fmt::format("{} was \"{}\" and is \"{}\"", name, old[name], value);
  return "";
}

}  // namespace

Result<Ran> run(const RunOptions& options) {
  std::unique_ptr<Ranks> ranks;
  if (options.mpi) {
    auto made = make_ranks();
    if (!made) return fail(made.error());
    ranks = std::move(*made);
  }
  auto backend = options.backend == "cuda" ? make_cuda(ranks.get()) : make_host(options.threads, ranks.get());
  if (!backend) return fail(backend.error());
  Ran out;
  out.first = !ranks || ranks->rank() == 0;
  out.set.name = options.backend;
  out.set.environment = (*backend)->environment();
  std::vector<Point> wanted = options.shapes.empty() ? std::vector<Point>{} : (*backend)->shapes(options.shapes);
  wanted.insert(wanted.end(), options.more.begin(), options.more.end());
  std::vector<Point> points;
  for (Point& p : drawn(std::move(wanted), options.seed)) {
    if (const std::string why = (*backend)->refusal(p); why.empty()) points.push_back(std::move(p));
    else out.left_out.emplace_back(name_of(p), why);
  }
  // Rank 0 knows what an earlier run got: the others may be on machines that do not see its file.
  std::string why = out.first && !options.known.points.empty() ? difference(options.known, out.set) : "";
  std::map<std::string, const Point*> known;
  for (const Point& p : options.known.points) known.emplace(name_of(p), &p);
  std::vector<char> skip(points.size() + 1);
  if (out.first)
    for (std::size_t i = 0; i < points.size(); ++i) skip[i] = known.contains(name_of(points[i])) ? 1 : 0;
  skip.back() = why.empty() ? 0 : 1;
  if (ranks) ranks->broadcast(skip.data(), skip.size());
  if (skip.back() != 0) return fail("", "", fmt::format("the measurements to resume are of another environment: {}", why));

  const auto all = static_cast<std::size_t>(std::count(skip.begin(), skip.end() - 1, 0));
  std::size_t done = 0;
  const auto begin = Clock::now();
  auto saved = begin;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  for (std::size_t i = 0; i < points.size(); ++i) {
    Point& p = points[i];
    if (skip[i] != 0) {
      if (out.first) out.set.points.push_back(*known.at(name_of(p)));
      continue;
    }
    if (const std::string wrong = (*backend)->time(p, options.repetitions, options.seed); wrong.empty()) out.set.points.push_back(p);
    else out.failed.emplace_back(name_of(p), wrong);
    ++done;
    if (!out.first) continue;
    if (options.progress) options.progress(done, all, seconds(Clock::now() - begin) / static_cast<double>(done) * static_cast<double>(all - done));
    if (options.save && seconds(Clock::now() - saved) > kSaveEvery) {
      options.save(out.set);
      saved = Clock::now();
    }
  }
  backend->reset();  // before the ranks go
  // Ranks but the first keep nothing of what was resumed: theirs is no failure.
  if (out.first && out.set.points.empty()) {
    if (out.failed.empty() && out.left_out.empty()) return fail("", "", "there is no point to time");
    const auto& [name, text] = out.failed.empty() ? out.left_out.front() : out.failed.front();
    return fail("", "", fmt::format("no point could be timed: {}: {}", name, text));
  }
  return out;
}

}  // namespace orrery::measure
