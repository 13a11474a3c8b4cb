#include "catch.h"
#include "orrery/document/document.hpp"
#include "orrery/document/skim.hpp"

using namespace orrery;
using document::skim;

namespace {
using Texts = std::vector<std::string>;
}  // namespace

TEST_CASE("skimming keeps the words at the top of an object and the names of all its members") {
  const auto head = skim(R"(// a comment
    {"gpu": "h100", "parts": ["a", 1, "b"], "n": 2, "none": null, "inner": {"gpu": "other", "list": ["x"]}, "lists": [["deep"], {"k": "v"}, "c"]})");
  REQUIRE(head.has_value());
  CHECK(head->text("gpu") == "h100");
  CHECK(head->texts("parts") == Texts{"a", "b"});
  CHECK(head->texts("lists") == Texts{"c"});
  for (const char* name : {"n", "none", "inner"}) {
    CHECK(head->has(name));
    CHECK(head->text(name).empty());
    CHECK(head->texts(name).empty());
  }
  CHECK_FALSE(head->has("list"));
  CHECK_FALSE(head->has("k"));
}

TEST_CASE("a string is no list and a list is no string") {
  const auto head = skim(R"({"word": "a", "list": ["a"]})");
  REQUIRE(head.has_value());
  CHECK(head->texts("word").empty());
  CHECK(head->text("list").empty());
}

TEST_CASE("only a JSON object can be skimmed") {
  for (const char* text : {"", "[\"a\"]", "\"a\"", "1", "{\"a\": }", "{\"a\": 1", "{} {}"}) {
    CAPTURE(text);
    CHECK_FALSE(skim(text).has_value());
  }
  CHECK(skim("{}").has_value());
}

TEST_CASE("skimming a shipped profile says the same as reading it whole") {
  const auto directory = document::config_dir();
  REQUIRE(directory.has_value());
  const auto names = document::catalogue("profile");
  REQUIRE(names.has_value());
  REQUIRE_FALSE(names->empty());
  for (const std::string& name : *names) {
    CAPTURE(name);
    const auto text = document::read_file(*directory + "/calibration/" + name + ".json");
    REQUIRE(text.has_value());
    const auto whole = document::parse(*text, name);
    const auto head = skim(*text);
    REQUIRE(whole.has_value());
    REQUIRE(head.has_value());
    REQUIRE(head->members.size() == whole->members().size());
    for (const auto& [member, value] : whole->members()) {
      CAPTURE(member);
      CHECK(head->has(member));
      CHECK(head->text(member) == (value.is_string() ? value.as_string() : ""));
      Texts texts;
      if (value.is_array()) {
        for (const document::Value& item : value.items()) {
          if (item.is_string()) texts.push_back(item.as_string());
        }
      }
      CHECK(head->texts(member) == texts);
    }
  }
}
