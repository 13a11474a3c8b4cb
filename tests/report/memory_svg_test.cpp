// Memory as a picture: what is held, stacked, with the peak where it is.
#include "catch.h"
#include "orrery/report/memory_chart.hpp"
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

TEST_CASE("columns are equal parts of the step, each as it was when it held most, and carry on what nothing changes") {
  MemorySvg memory(0, {"parameters", "activations"});
  memory.memory(0, 0, 0, 100);
  memory.memory(0, 26, 1, 40);
  memory.memory(0, 30, 1, 10);
  memory.memory(0, 99, 1, 0);
  const std::vector<MemorySvg::Column> columns = memory.columns(4, 100);
  REQUIRE(columns.size() == 4);
  CHECK(columns[0].held == std::vector<std::int64_t>{100, 0});
  CHECK(columns[1].held == std::vector<std::int64_t>{100, 40});
  CHECK(columns[2].held == std::vector<std::int64_t>{100, 10});
  CHECK(columns[3].held == std::vector<std::int64_t>{100, 10});
  CHECK(columns[3].at == 75);
}

TEST_CASE("the chart stacks a letter per kind to the height of its bytes, under a dashed line at the capacity and over a mark at the peak") {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  MemorySvg memory(0, {"parameters", "gradients", "activations"});
  memory.memory(0, 0, 0, 4 * kGiB);
  memory.memory(0, 500, 2, 8 * kGiB);
  memory.memory(0, 750, 2, 0);
  const std::string chart = report::memory_chart(memory, 1000, 16 * kGiB);
  std::vector<std::string> lines;
  for (std::size_t from = 0, to = 0; (to = chart.find('\n', from)) != std::string::npos; from = to + 1) lines.push_back(chart.substr(from, to - from));
  REQUIRE(lines.size() == 20);
  // Sixteen rows of 1 GiB: four of parameters everywhere, eight of activations in the third quarter of 72 columns.
  CHECK(lines[0] == "     16.0 |" + std::string(72, '-'));
  CHECK(lines[3] == "     13.0 |" + std::string(72, ' '));
  CHECK(lines[4] == "     12.0 |" + std::string(36, ' ') + std::string(18, 'A') + std::string(18, ' '));
  CHECK(lines[12] == "      4.0 |" + std::string(72, 'P'));
  CHECK(lines[17].find('^') == 11 + 36);
  CHECK(lines[19].find("P parameters 4.00 A activations 8.00") != std::string::npos);
  CHECK(chart.find("gradients") == std::string::npos);
}
