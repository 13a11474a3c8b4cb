// Axes, points, constraints and the store of a sweep.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

#include <rapidcheck.h>

#include "catch.h"
#include "orrery/search/store.hpp"

using namespace orrery;
using search::Sweep;

namespace {

std::vector<std::string> values(const std::string& vary) {
  const auto axis = search::read_axis(vary);
  INFO((axis ? std::string() : axis.error()[0].text));
  REQUIRE(axis);
  return axis->values;
}

std::string refusal(const std::string& vary) {
  const auto axis = search::read_axis(vary);
  REQUIRE_FALSE(axis);
  return axis.error()[0].text;
}

search::Axis axis(const std::string& vary, bool zipped = false) {
  auto a = search::read_axis(vary);
  REQUIRE(a);
  a->zipped = zipped;
  return *a;
}

std::string words(const Sweep::Point& point) {
  std::string text;
  for (const document::Override& o : point.sets) text += (text.empty() ? "" : " ") + o.path + "=" + o.value;
  return text + (point.same != nullptr ? " (same)" : "");
}

std::vector<std::string> all(const Sweep& sweep) {
  std::vector<std::string> list;
  for (std::uint64_t i = 0; i < sweep.size(); ++i) {
    const auto point = sweep.at(i);
    REQUIRE(point);
    list.push_back(words(*point));
  }
  return list;
}

bool holds(const std::string& text, const document::Value& row) {
  const auto e = search::Expression::make(text);
  INFO((e ? std::string() : e.error()[0].text));
  REQUIRE(e);
  const auto answer = e->holds([&](const std::string& name) { return search::find_path(row, name); });
  INFO((answer ? std::string() : answer.error()[0].text));
  REQUIRE(answer);
  return *answer;
}

class File {
 public:
  File() : path_(std::filesystem::temp_directory_path() / ("orrery-sweep-" + std::to_string(::getpid()) + "-" + std::to_string(++count_))) {}
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

search::PointRow row(std::uint64_t index) {
  search::PointRow r;
  r.index = index;
  r.outcome = search::PointOutcome::kFits;
  r.json = document::Value::Object{{"schema", "orrery/sweep-row/1"}, {"index", document::Value(static_cast<std::int64_t>(index))}, {"step_s", 1.5}};
  return r;
}

std::string words(const search::Store& store) {
  std::string text;
  REQUIRE(store.each([&](const std::string& json) {
    text += json + "\n";
    return true;
  }));
  return text;
}

const document::Value kDefinition = document::Value::Object{{"schema", "orrery/sweep/1"}, {"points", 3}};

}  // namespace

TEST_CASE("an axis is a list, a range, powers, or numbers at equal steps") {
  CHECK(values("a.b=1,2,4") == std::vector<std::string>{"1", "2", "4"});
  CHECK(values("a=none, full") == std::vector<std::string>{"none", "full"});
  CHECK(values(R"(a=["x","y"],"z,w",{"q":[1,2]})") == std::vector<std::string>{R"(["x","y"])", R"("z,w")", R"({"q":[1,2]})"});
  CHECK(values("a=2..5") == std::vector<std::string>{"2", "3", "4", "5"});
  CHECK(values("a=-2..7..4") == std::vector<std::string>{"-2", "2", "6"});
  CHECK(values("a=2^0..2^3,100") == std::vector<std::string>{"1", "2", "4", "8", "100"});
  CHECK(values("a=0.5..1/3") == std::vector<std::string>{"0.5", "0.75", "1"});
  CHECK(values("a=9223372036854775806..9223372036854775807").size() == 2);
  CHECK(values("a=../models/own.json") == std::vector<std::string>{"../models/own.json"});
  const auto between = axis("a=log:1~100");
  REQUIRE(between.between);
  CHECK(between.between->logarithmic);
  CHECK(axis("a=1,2 if b > 1").condition->text() == "b > 1");
}

TEST_CASE("an axis that says nothing sensible is refused with what is expected") {
  CHECK(refusal("a") == "--vary a: expected PATH=VALUES");
  CHECK(refusal("=1") == "--vary =1: expected PATH=VALUES");
  CHECK(refusal("a=") == "--vary a=: a value is empty");
  CHECK(refusal("a=1,,2") == "--vary a=1,,2: a value is empty");
  CHECK(refusal("a=[1,2") == "--vary a=[1,2: a bracket or a quote is not closed");
  CHECK(refusal("a=4..2") == "--vary a: 4..2: expected whole numbers a..b with a <= b, a..b..step, powers 2^4..2^11, or a..b/n for n numbers at equal steps");
  CHECK(refusal("a=1..9..0") == "--vary a: 1..9..0: the step is no whole number from 1 up");
  CHECK(refusal("a=2^4..3^5") == "--vary a: 2^4..3^5: expected powers of one whole base from 2 up, such as 2^4..2^11");
  CHECK(refusal("a=2^1..2^64") == "--vary a: 2^1..2^64: too large for a 64-bit number");
  CHECK(refusal("a=0..2000000") == "--vary a: 0..2000000: more than 1000000 values");
  CHECK(refusal("a=5~1") == "--vary a=5~1: expected a~b with a < b");
  CHECK(refusal("a=log:0~1") == "--vary a=log:0~1: expected a~b with a < b, both above 0");
}

TEST_CASE("the last axis of a grid moves fastest, and a zipped one moves with the one before it") {
  const auto sweep = Sweep::grid({axis("a=1,2"), axis("b=x,y", true), axis("c=5,6")});
  REQUIRE(sweep);
  CHECK(all(*sweep) == std::vector<std::string>{"a=1 b=x c=5", "a=1 b=x c=6", "a=2 b=y c=5", "a=2 b=y c=6"});
}

TEST_CASE("where an axis's condition is false the member stays as written, and its other values are the same point") {
  const auto sweep = Sweep::grid({axis("p.pp=1,2"), axis("p.vp=1,4 if p.pp > 1")});
  REQUIRE(sweep);
  CHECK(all(*sweep) == std::vector<std::string>{"p.pp=1", "p.pp=1 (same)", "p.pp=2 p.vp=1", "p.pp=2 p.vp=4"});
}

TEST_CASE("what cannot be a sweep is refused") {
  const auto why = [](const Result<Sweep>& s) {
    REQUIRE_FALSE(s);
    return s.error()[0].text;
  };
  CHECK(why(Sweep::grid({})) == "sweep: nothing varies; give --vary PATH=VALUES");
  CHECK(why(Sweep::grid({axis("a.b=1"), axis("/a/b=2")})) == "/a/b is varied twice");
  CHECK(why(Sweep::grid({axis("a=1,2,1")})) == "a: 1 is given twice");
  CHECK(why(Sweep::grid({axis("a=1,2"), axis("b=1,2,3", true)})) == "--zip b: 3 values beside the 2 of a");
  CHECK(why(Sweep::grid({axis("a=1,2", true)})) == "--zip a: no --vary stands before it");
  CHECK(why(Sweep::grid({axis("a=1~2")})) == "a: anything between two numbers is for samples; give --sample, or a..b/n");
  CHECK(why(Sweep::grid({axis("a=1,2 if b > 1")})) == "a: its condition names b, which does not vary");
  CHECK(why(Sweep::grid({axis("a=1..65536"), axis("b=1..65536"), axis("c=1..65536"), axis("d=1..65536")})) == "sweep: more than 2^62 points");
}

TEST_CASE("a grid of any size is decoded without being listed, each point once") {
  CHECK(rc::check("every index gives another point", [] {
    const auto sizes = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(1, 6));
    std::vector<search::Axis> axes;
    for (int i = 0; i < 3; ++i) axes.push_back(*search::read_axis(std::string(1, static_cast<char>('a' + i)) + "=1.." + std::to_string(sizes[static_cast<std::size_t>(i)])));
    const auto sweep = Sweep::grid(axes);
    RC_ASSERT(sweep.has_value());
    std::set<std::string> seen;
    for (std::uint64_t i = 0; i < sweep->size(); ++i) seen.insert(words(*sweep->at(i)));
    RC_ASSERT(seen.size() == sweep->size());
  }));
  const auto large = Sweep::grid({axis("a=1..100000"), axis("b=1..100000"), axis("c=1..100000")});
  REQUIRE(large);
  CHECK(words(*large->at(large->size() - 1)) == "a=100000 b=100000 c=100000");
}

TEST_CASE("a Latin hypercube uses every part of every axis once; the same seed draws the same points") {
  const auto sweep = Sweep::sample({axis("a=0~1"), axis("b=0..9")}, search::Sampling::kLatinHypercube, 50, 7);
  REQUIRE(sweep);
  std::vector<int> parts(50, 0), counts(10, 0);
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto point = sweep->at(i);
    REQUIRE(point);
    ++parts[static_cast<std::size_t>(std::stod(point->sets[0].value) * 50)];
    ++counts[static_cast<std::size_t>(std::stoi(point->sets[1].value))];
  }
  CHECK(parts == std::vector<int>(50, 1));
  CHECK(counts == std::vector<int>(10, 5));
  CHECK(all(*sweep) == all(*Sweep::sample({axis("a=0~1"), axis("b=0..9")}, search::Sampling::kLatinHypercube, 50, 7)));
  CHECK(all(*sweep) != all(*Sweep::sample({axis("a=0~1"), axis("b=0..9")}, search::Sampling::kLatinHypercube, 50, 8)));
  const auto random = Sweep::sample({axis("a=log:1~100")}, search::Sampling::kRandom, 400, 1);
  REQUIRE(random);
  int below = 0;
  for (std::uint64_t i = 0; i < 400; ++i) below += std::stod(random->at(i)->sets[0].value) < 10 ? 1 : 0;
  CHECK(below > 160);
  CHECK(below < 240);
}

TEST_CASE("expressions compare numbers, texts and truth by path") {
  const auto row = *document::parse(R"({"p": {"tp": 4, "pp": 2, "sp": true}, "t": {"recompute": "full", "loss": null}})", "");
  CHECK(holds("p.tp * p.pp <= 8", row));
  CHECK_FALSE(holds("p.tp * p.pp < 8", row));
  CHECK(holds("t.recompute == \"full\" && p.sp", row));
  CHECK(holds("t.recompute != \"none\" || p.tp > 100", row));
  CHECK_FALSE(holds("t.loss > 1", row));
  CHECK_FALSE(holds("t.loss <= 1", row));
  CHECK(holds("min(p.tp, p.pp) == 2", row));
}

TEST_CASE("an expression that cannot be read or evaluated says which and why") {
  const auto bad = search::Expression::make("p.tp * ");
  REQUIRE_FALSE(bad);
  CHECK(bad.error()[0].text.starts_with("expression \"p.tp * \": "));
  const document::Value empty = document::Value::Object{};
  const auto find = [&](const std::string& name) { return search::find_path(empty, name); };
  const auto missing = search::Expression::make("p.tp > 1")->holds(find);
  REQUIRE_FALSE(missing);
  CHECK(missing.error()[0].text == "expression \"p.tp > 1\": there is no p.tp");
  const auto kinds = search::Expression::make("\"a\" * 2")->holds(find);
  REQUIRE_FALSE(kinds);
  CHECK(kinds.error()[0].text.starts_with("expression \"\"a\" * 2\": "));
  CHECK_FALSE(search::Expression::make(std::string(5000, '1')));
}

TEST_CASE("reasons are counted without their numbers, and names keep theirs") {
  CHECK(search::reason_class("/pp: 32 stages are more than 16.5 layers; use 1f1b, or 2") == "/pp: N stages are more than N layers; use 1f1b, or N");
}

TEST_CASE("a store keeps what was added, whole, in order of the points, and goes on from there") {
  const File file;
  {
    auto store = search::Store::open(file.path(), kDefinition);
    REQUIRE(store);
    CHECK(store->stored()->empty());
    CHECK(store->add(std::vector{row(2), row(0)}));
  }
  auto store = search::Store::open(file.path(), kDefinition);
  REQUIRE(store);
  CHECK(*store->stored() == std::vector<std::uint64_t>{0, 2});
  CHECK(store->add(std::vector{row(1), row(2)}));
  CHECK(words(*store) == R"({"schema":"orrery/sweep-row/1","index":0,"step_s":1.5}
{"schema":"orrery/sweep-row/1","index":1,"step_s":1.5}
{"schema":"orrery/sweep-row/1","index":2,"step_s":1.5}
)");
  const auto reader = search::Store::read(file.path());
  REQUIRE(reader);
  CHECK(reader->definition() == kDefinition);
}

TEST_CASE("a store that holds another sweep, is none, is damaged, or is in use is refused and left as it is") {
  const File file;
  const auto why = [](const auto& r) {
    REQUIRE_FALSE(r);
    return to_string(r.error()[0]);
  };
  {
    auto store = search::Store::open(file.path(), kDefinition);
    REQUIRE(store);
    CHECK(store->add(std::vector{row(0)}));
    CHECK(why(search::Store::open(file.path(), kDefinition)) == file.path() + ": another process writes to this store");
    CHECK(search::Store::read(file.path()));
  }
  const document::Value other = document::Value::Object{{"schema", "orrery/sweep/1"}, {"points", 4}};
  CHECK(why(search::Store::open(file.path(), other)) == file.path() + ": holds another sweep (different: points); give another --store");
  CHECK(words(*search::Store::read(file.path())).starts_with("{\"schema\""));

  const File text;
  std::ofstream(text.path()) << std::string(5000, 'x');
  CHECK(why(search::Store::open(text.path(), kDefinition)) == text.path() + ": is no sweep store, or a damaged one; give another --store");
  CHECK(why(search::Store::read(text.path())) == text.path() + ": is no sweep store, or a damaged one; give another --store");
  CHECK(why(search::Store::read(text.path() + ".none")) == text.path() + ".none: there is no such file");
  CHECK(why(search::Store::open("/nowhere/at/all.sweep", kDefinition)) == "/nowhere/at/all.sweep: cannot be written: No such file or directory");

  std::filesystem::resize_file(file.path(), 4096);  // pages gone
  const auto cut = search::Store::read(file.path());
  if (cut) {
    CHECK_FALSE(cut->stored());
  } else {
    CHECK_FALSE(cut.error().empty());
  }
}
