#include "crosscheck/simgrid_flows.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>

namespace orrery::test {
namespace {

namespace s4u = simgrid::s4u;

double bytes_per_s(std::int64_t rate) { return static_cast<double>(rate) * kPicosecondsPerSecond / static_cast<double>(std::int64_t{1} << engine::kRateBits); }

/// A star in which flow f goes from a host of its own, whose way out is its links but the last, to one whose way in is the last.
SimgridRun play_here(const FlowSet& set) {
  std::string name = "flows", quiet = "--log=root.thres:error";
  char* arguments[] = {name.data(), quiet.data(), nullptr};
  int count = 2;
  s4u::Engine engine(&count, arguments);
  // CM02 without its TCP corrections is plain max-min fairness over shared links, capped by the rate of each flow.
  for (const char* option : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/weight-S:0", "network/bandwidth-factor:1",
                             "network/latency-factor:1", "maxmin/precision:1e-9", "surf/precision:1e-9"}) {
    s4u::Engine::set_config(option);
  }
  s4u::NetZone* zone = s4u::create_star_zone("star");
  std::vector<const s4u::Link*> links;
  for (std::size_t l = 0; l < set.capacities.size(); ++l) {
    links.push_back(zone->create_link(fmt::format("l{}", l), bytes_per_s(set.capacities[l]))->set_latency(0)->seal());
  }
  std::vector<s4u::Host*> from, to;
  for (std::size_t f = 0; f < set.flows.size(); ++f) {
    from.push_back(zone->create_host(fmt::format("s{}", f), 1e9)->seal());
    to.push_back(zone->create_host(fmt::format("d{}", f), 1e9)->seal());
    std::vector<s4u::LinkInRoute> out, in;
    std::int64_t least = engine::kMaxCapacity;
    for (const std::uint32_t l : set.flows[f].links) {
      out.emplace_back(links[l]);
      least = std::min(least, set.capacities[l]);
    }
    if (set.flows[f].cap < least) {
      // A link of its own: SimGrid 3.32 takes no rate for a communication between two hosts that no actor sends.
      out.emplace_back(zone->create_link(fmt::format("c{}", f), bytes_per_s(set.flows[f].cap))->set_latency(0)->seal());
    }
    in.push_back(out.back());
    out.pop_back();
    zone->add_route(from[f]->get_netpoint(), nullptr, nullptr, nullptr, out, false);
    zone->add_route(nullptr, to[f]->get_netpoint(), nullptr, nullptr, in, false);
  }
  zone->seal();

  SimgridRun run;
  std::vector<s4u::CommPtr> comms;
  std::clock_t started = 0;
  s4u::Actor::create("starter", from[0], [&] {
    for (std::size_t f = 0; f < set.flows.size(); ++f) {
      comms.push_back(s4u::Comm::sendto_init());
      comms.back()->set_payload_size(static_cast<std::uint64_t>(set.flows[f].bytes));
      comms.back()->set_source(from[f])->set_destination(to[f]);  // it starts when it has both
    }
    started = std::clock();
    s4u::Comm::wait_all(comms);
  });
  engine.run();
  run.run_seconds = static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
  for (const s4u::CommPtr& comm : comms) run.finish.push_back(comm->get_finish_time());
  return run;
}

void write_all(int fd, const std::vector<double>& values) {
  const char* data = reinterpret_cast<const char*>(values.data());
  for (std::size_t left = values.size() * sizeof(double); left > 0;) {
    const ssize_t n = write(fd, data, left);
    if (n <= 0) std::_Exit(1);
    data += n;
    left -= static_cast<std::size_t>(n);
  }
}

}  // namespace

SimgridRun play_in_simgrid(const FlowSet& set) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe for SimGrid's process");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process for SimGrid");
  if (child == 0) {
    close(ends[0]);
    std::signal(SIGABRT, SIG_DFL);  // not the test framework's
    const SimgridRun run = play_here(set);
    write_all(ends[1], {run.run_seconds});
    write_all(ends[1], run.finish);
    std::_Exit(0);
  }
  close(ends[1]);
  std::vector<double> values(set.flows.size() + 1);
  char* data = reinterpret_cast<char*>(values.data());
  std::size_t left = values.size() * sizeof(double);
  while (left > 0) {
    const ssize_t n = read(ends[0], data, left);
    if (n <= 0) break;
    data += n;
    left -= static_cast<std::size_t>(n);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (left > 0 || status != 0) throw std::runtime_error("SimGrid's process did not end well");
  return {{values.begin() + 1, values.end()}, values.front()};
}

}  // namespace orrery::test
