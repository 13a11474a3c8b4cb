#include <string>

#include "catch.h"
#include "orrery/base/assert.hpp"
#include "orrery/document/value.hpp"

using namespace orrery;
using document::dump;
using document::parse;
using document::Value;

namespace {

Value parsed(std::string_view text) {
  const auto value = parse(text, "t.json");
  REQUIRE(value.has_value());
  return *value;
}

std::string refusal(std::string_view text) {
  const auto value = parse(text, "t.json");
  REQUIRE_FALSE(value.has_value());
  REQUIRE(value.error().size() == 1);
  return to_string(value.error().front());
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("parsing keeps order, kinds and 64-bit integers") {
  const Value v = parsed("// a comment\n{\"b\": 1, \"a\": [true, null, 2.5, \"x\"], \"big\": 9223372036854775807, \"small\": -9223372036854775808}");
  REQUIRE(v.members().size() == 4);
  CHECK(v.members()[0].first == "b");
  CHECK(v.at("b").as_int() == 1);
  CHECK(v.at("a").items()[0].as_bool());
  CHECK(v.at("a").items()[1].is_null());
  CHECK(v.at("a").items()[2].as_double() == 2.5);
  CHECK(v.at("a").items()[3].as_string() == "x");
  CHECK(v.at("big").as_int() == INT64_MAX);
  CHECK(v.at("small").as_int() == INT64_MIN);
  CHECK(v.at("absent").at("of absent").is_null());
}

TEST_CASE("bad text is refused with line and column") {
  CHECK(refusal("") == "t.json: is empty; a JSON document is expected");
  CHECK(refusal(" \n\t ") == "t.json: is empty; a JSON document is expected");
  CHECK(refusal("{\"a\": 1,\n \"b\": ") == "t.json: line 2, column 7: the text ends before the document does");
  CHECK(refusal("{\"a\": 1,\n \"b\": tru}") == "t.json: line 2, column 10: not JSON: invalid literal");
  CHECK(refusal("{\"a\": NaN}") == "t.json: line 1, column 7: not JSON: invalid literal");
  CHECK(refusal("{\"a\": 1} {") == "t.json: line 1, column 10: not JSON: unexpected '{'");
  CHECK(refusal("{\"a\": 1,\n \"a\": 2}") == "t.json: line 2, column 2: the member \"a\" appears twice");
  CHECK(refusal("[1,\n 9223372036854775808]") == "t.json: line 2, column 2: the integer 9223372036854775808 is out of range: accepted are -9223372036854775808 to 9223372036854775807");
  CHECK(refusal("[99999999999999999999999]") == "t.json: line 1, column 2: the integer 99999999999999999999999 is out of range: accepted are -9223372036854775808 to 9223372036854775807");
  CHECK(refusal("[1e999]") == "t.json: line 1, column 2: the number 1e999 is out of range: no 64-bit floating point number holds it");
  CHECK(refusal("[\"\xC0\xAF\"]") == "t.json: line 1, column 3: not UTF-8");
  CHECK(refusal("// \xFF\n[]") == "t.json: line 1, column 4: not UTF-8");
  CHECK(refusal("[\"\xED\xA0\x80\"]") == "t.json: line 1, column 3: not UTF-8");
}

TEST_CASE("nesting of 64 levels is accepted and of 65 refused") {
  CHECK(parse(nested(64), "t.json").has_value());
  CHECK(refusal(nested(65)) == "t.json: line 1, column 65: nested deeper than 64 levels");
  CHECK(refusal(std::string(1'000'000, '[')) == "t.json: line 1, column 65: nested deeper than 64 levels");
}

TEST_CASE("text longer than 64 MiB is refused before it is read", "[slow]") {
  CHECK(refusal(std::string((64U << 20) + 1, ' ')) == "t.json: longer than 64 MiB");
}

TEST_CASE("every truncation of a document is refused and none crashes") {
  const std::string text = R"({"a": [1, 2.5e3, "é\u00e9\n"], "b": {"c": null, "d": true}})";
  for (std::size_t length = 0; length < text.size(); ++length) {
    INFO(length);
    CHECK_FALSE(parse(std::string_view(text).substr(0, length), "t.json").has_value());
  }
}

TEST_CASE("what is dumped reads back as the same value") {
  for (const char* text : {"null", "[]", "{}", "5.0", "0.1", "1e+300", "-0.5", "{\"a\":[1,{\"b\":\"q\\\"\\\\\\n\\u0001é\"}]}"}) {
    CAPTURE(text);
    const Value v = parsed(text);
    CHECK(parsed(dump(v)) == v);
    CHECK(parsed(dump(v, -1)) == v);
  }
  CHECK(dump(parsed("{\"a\": [1, 2.5], \"b\": {}}"), -1) == "{\"a\":[1,2.5],\"b\":{}}");
  CHECK(dump(parsed("{\"a\": [1]}")) == "{\n \"a\": [\n  1\n ]\n}");
  CHECK(dump(Value("bad \xFF byte"), -1) == "\"bad \xEF\xBF\xBD byte\"");
}

TEST_CASE("a pointer finds members and items, and nothing else") {
  const Value v = parsed(R"({"a/b": [10, {"~": 1}], "": 2})");
  CHECK(v.resolve("") == &v);
  CHECK(v.resolve("/a~1b/0")->as_int() == 10);
  CHECK(v.resolve("/a~1b/1/~0")->as_int() == 1);
  CHECK(v.resolve("/")->as_int() == 2);
  CHECK(v.resolve("/a~1b/2") == nullptr);
  CHECK(v.resolve("/a~1b/00") == nullptr);
  CHECK(v.resolve("/a~1b/x") == nullptr);
  CHECK(v.resolve("a") == nullptr);
}

TEST_CASE("members are set in place, appended, and erased") {
  Value v;
  v.set("a", 1);
  v.set("b", 2);
  v.set("a", "x");
  CHECK(dump(v, -1) == R"({"a":"x","b":2})");
  v.erase("a");
  v.erase("never there");
  CHECK(dump(v, -1) == R"({"b":2})");
  CHECK_THROWS_AS(v.as_int(), InternalError);
}
