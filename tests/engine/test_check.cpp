// Each bound of the input has its words.
#include "build_input.hpp"

using namespace orrery;
using namespace orrery::engine;
using namespace orrery::engine::testing;

namespace {

Built sound() {
  Built b(2);
  const std::uint32_t link = b.resource(1000);
  const std::uint32_t g = b.group({0, 1}, b.usage({{link, kUnit}}), {transfer(1, 10, 100)});
  const std::uint32_t c = b.channel(0, 1, {}, {transfer(1, 10, 100)});
  for (std::uint32_t r : {0U, 1U}) {
    b.segment(r, 10, kNone, b.event(r));
    b.collective(r, 1, g, 0, 0);
    b.batch(r, 2, {{r == 0, c}});
  }
  return b;
}

template <class Spoil>
std::vector<std::string> problems(Spoil spoil) {
  Built b = sound();
  spoil(b.in);
  return check(b.in);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a sound input has no problems") { CHECK(check(sound().in).empty()); }

TEST_CASE("sizes outside their bounds are refused in words") {
  CHECK(problems([](Input& in) { in.resources[0].capacity = kMaxCapacity + 1; }) == Lines{"resource 0: the capacity is not within 1 … 2^50 rate units"});
  CHECK(problems([](Input& in) { in.resources[0].multiplicity = 0; }) == Lines{"resource 0: the multiplicity is below 1"});
  CHECK(problems([](Input& in) { in.usages[0].weight = 0; }) == Lines{"usage 0: it names no resource, or its weight is not within 1 … 2^52"});
  CHECK(problems([](Input& in) { in.usages[0].weight = 1001 * kUnit; }) ==
        Lines{"resource 0: its capacity leaves less than one rate unit for each of the flows that may cross it"});
  CHECK(problems([](Input& in) { in.transfers[0].cap = 0; }) == Lines{"transfer 0: work needs a cap"});
  CHECK(problems([](Input& in) { in.transfers[0].cap = kMaxCapacity + 1; }) == Lines{"transfer 0: the cap is not within 0 … 2^50 rate units"});
  CHECK(problems([](Input& in) { in.transfers[0].work = int128{1} << 100; }) == Lines{"transfer 0: it takes longer than 2^60 ps at its cap"});
  CHECK(problems([](Input& in) { in.transfers[0].latency = -1; }) == Lines{"transfer 0: the latency is not within 0 … 2^60 ps"});
  CHECK(problems([](Input& in) { in.transfers[1].sms = -1; }) == Lines{"transfer 1: bytes and footprint are not negative"});
  CHECK(problems([](Input& in) { in.transfers[1].account = 99; }) == Lines{"transfer 1: there is no such account"});
  CHECK(problems([](Input& in) { in.programs[0].host[0].cost = -1; }) == Lines{"program 0 host instruction 0: cost and lead are not within 0 … 2^60 ps"});
  CHECK(problems([](Input& in) {
          in.programs[0].host.insert(in.programs[0].host.end(), 2, {HostOp::kAllocate, 0, 0, 1, kNone, 0, 0, INT64_MAX});
        }) == Lines{"program 0: memory or host time does not fit (2^63 bytes, 2^60 ps)"});
}

TEST_CASE("indices that lead nowhere are refused before they are followed") {
  CHECK(problems([](Input& in) { in.usages[0].resource = 7; }) == Lines{"usage 0: it names no resource, or its weight is not within 1 … 2^52"});
  CHECK(problems([](Input& in) { in.groups[0].members = {0, 5}; }) == Lines{"group 0: there is no rank 5", "rank 1: it is no member of group 0"});
  CHECK(problems([](Input& in) { in.groups[0].members = {1, 0}; }) ==
        Lines{"group 0: members are not in rising order", "rank 0: it is no member of group 0", "rank 1: it is no member of group 0"});
  CHECK(problems([](Input& in) { in.ranks[0].program = 9; }) == Lines{"rank 0: there is no program 9"});
  CHECK(problems([](Input& in) { in.ranks[1].groups = {4}; }) == Lines{"rank 1: there is no group 4"});
  CHECK(problems([](Input& in) { in.ranks[1].groups.clear(); }) == Lines{"rank 1: it has no group in slot 0"});
  CHECK(problems([](Input& in) { in.channels[0].usage = {3, 2}; }) == Lines{"channel 0: the usage set is out of range"});
  CHECK(problems([](Input& in) { in.programs[1].streams[0][0].index = 5; }) == Lines{"program 1 stream 0 instruction 0: what it names does not exist"});
  CHECK(problems([](Input& in) { in.programs[1].streams[1][0].wait = 5; }) == Lines{"program 1 stream 1 instruction 0: there is no event 5"});
  CHECK(problems([](Input& in) { in.programs[1].streams[1][0].record = 0; }) == Lines{"program 1 stream 1 instruction 0: event 0 is recorded twice"});
  CHECK(problems([](Input& in) { in.transfers[0].usage_set = 1; }).front() == "rank 0: transfer 0 takes usage set 1 of 1 of group 0");
  CHECK(problems([](Input& in) { in.programs[0].collectives[0].transfer = 9; }) ==
        Lines{"rank 0: group 0 names transfer 9 of 2", "rank 1: its collectives of group 0 are not those of the other members"});
}

TEST_CASE("programs that do not fit each other are refused") {
  CHECK(problems([](Input& in) { in.programs[0].host.pop_back(); }) == Lines{"program 0: the host issues 0 of the 1 instructions of stream 2"});
  CHECK(problems([](Input& in) { in.programs[0].batches[0][0].send = false; }) ==
        Lines{"rank 0: it receives on channel 0, whose receiver is rank 1", "channel 0: its sends are not its receives"});
  CHECK(problems([](Input& in) {
          in.programs[0].batches[0].clear();
        }) == Lines{"channel 0: its sends are not its receives"});
  CHECK(problems([](Input& in) {
          in.programs[0].streams[2].push_back(in.programs[0].streams[1][0]);
          in.programs[0].host.push_back(in.programs[0].host.back());
        }) == Lines{"rank 0: group 0 is used in more than one stream, so its order is not settled",
                    "rank 1: its collectives of group 0 are not those of the other members"});
}

TEST_CASE("no more than twenty problems are listed") {
  CHECK(problems([](Input& in) { in.resources.assign(50, Resource{0, 1, false}); }).size() == 20);
}
