// Memory as a picture: what is held, stacked, with the peak where it is.
#include "catch.h"
#include "orrery/report/memory_svg.hpp"

using namespace orrery;
using report::MemorySvg;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("the peak is the moment at which the kinds' sum is highest, however short, and one rank alone is heard") {
  MemorySvg picture(3, {"parameters", "activations", "buffers"});
  CHECK(picture.wants(3));
  CHECK_FALSE(picture.wants(2));
  picture.memory(3, 0, 0, 100);
  picture.memory(3, 10, 1, 50);
  picture.memory(3, 20, 1, 400);
  picture.memory(3, 20, 1, 30);   // freed at the same instant
  picture.memory(2, 25, 1, 9000);  // another rank
  picture.memory(3, 30, 1, 300);
  CHECK(picture.peak().at == 20);
  CHECK(picture.peak().bytes == 500);
}

TEST_CASE("every kind that holds anything is an area with a name; a thousand allocations in a column are one step of its edge") {
  MemorySvg picture(0, {"parameters", "activations", "never <used>"});
  picture.memory(0, 0, 0, 1 << 20);
  constexpr SimTime kEnd = 1'000'000;
  for (SimTime t = 1; t < kEnd; t += 10) picture.memory(0, t, 1, t % 20 == 1 ? 1 << 19 : 0);
  const std::string svg = picture.svg("rank <0>", kEnd, 1 << 21);
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(count(svg, "<path") == 2);
  CHECK(count(svg, "<title>parameters</title>") == 1);
  CHECK(count(svg, "<title>activations</title>") == 1);
  CHECK(svg.find("never") == std::string::npos);
  CHECK(svg.find("rank &lt;0&gt;") != std::string::npos);
  CHECK(svg.find("stroke-dasharray") != std::string::npos);  // the device's capacity
  CHECK(svg.size() < 200'000);
}
