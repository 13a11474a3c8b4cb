#include <cstdlib>
#include <filesystem>
#include <thread>

#include <sys/stat.h>

#include "catch.h"
#include "orrery/document/document.hpp"
#include "scenarios.hpp"
#include "temporary.hpp"

using namespace orrery;
using document::read_file;
using document::write_file;
namespace fs = std::filesystem;

namespace {

template <class T>
std::string refusal(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  REQUIRE(result.error().size() == 1);
  return to_string(result.error().front());
}

}  // namespace

TEST_CASE("a file is written whole and leaves nothing beside it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("report.json");
  REQUIRE(write_file(path, "one").has_value());
  REQUIRE(write_file(path, "two").has_value());
  CHECK(read_file(path).value() == "two");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file keeps its permissions and a symbolic link stays a link") {
  const test::TemporaryFolder folder;
  const std::string real = folder.write("real.json", "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(real, folder.path("link.json"));
  REQUIRE(write_file(folder.path("link.json"), "new").has_value());
  CHECK(fs::is_symlink(folder.path("link.json")));
  CHECK(read_file(real).value() == "new");
  CHECK(fs::status(real).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(folder.files() == 2);
}

TEST_CASE("a target that is no regular file is opened and written to") {
  REQUIRE(write_file("/dev/null", "gone").has_value());
  CHECK(fs::is_character_file("/dev/null"));
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string received;
  std::thread reader([&] { received = read_file(pipe).value_or("nothing"); });
  CHECK(write_file(pipe, "through the pipe").has_value());
  reader.join();
  CHECK(received == "through the pipe");
  CHECK(fs::is_fifo(pipe));
  CHECK(folder.files() == 1);
}

TEST_CASE("what cannot be written or read says why and leaves nothing") {
  const test::TemporaryFolder folder;
  const std::string nowhere = folder.path("no/such/folder.json");
  CHECK(refusal(write_file(nowhere, "x")) == nowhere + ": cannot be written: no such file or directory");
  CHECK(refusal(write_file(folder.path(), "x")) == folder.path() + ": cannot be written: is a directory");
  CHECK(refusal(write_file("/dev/full", "x")) == "/dev/full: cannot be written: no space left on device");
  CHECK(refusal(read_file(nowhere)) == nowhere + ": cannot be read: no such file or directory");
  CHECK(refusal(read_file(folder.path())) == folder.path() + ": cannot be read: is a directory");
  CHECK(folder.files() == 0);
}

TEST_CASE("an endless file is cut and refused, not read for ever", "[slow]") {
  CHECK(refusal(document::load_scenario("/dev/zero", {})) == "/dev/zero: longer than 64 MiB");
}

TEST_CASE("hostile scenarios are refused with a place, and nothing crashes") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    const std::string path = folder.write("job.json", text);
    const std::string message = refusal(document::load_scenario(path, {}));
    REQUIRE(message.starts_with(path));
    return message.substr(path.size());
  };
  CHECK(refused("") == ": is empty; a JSON document is expected");
  CHECK(refused(std::string(100000, '{')) == ": line 1, column 2: not JSON: unexpected '{'");
  CHECK(refused("\xff\xfe{}") == ": line 1, column 1: not UTF-8");
  CHECK(refused(std::string("{\"a\": \0}", 8)) == ": line 1, column 7: not JSON: a NUL");
  CHECK(refused("42") == ": expected a scenario as an object, found 42");
  const std::string whole = test::scenario();
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    CAPTURE(length);
    CHECK_FALSE(document::load_scenario_text(whole.substr(0, length), "job.json", "", {}).has_value());
  }
}

TEST_CASE("numbers past any size are refused where they stand") {
  const auto refused = [](const char* path, const char* value) {
    const document::Override one{path, value};
    return refusal(document::load_scenario_text(test::scenario(), "job.json", "", std::span(&one, 1)));
  };
  CHECK(refused("cluster.nodes", "-1") == "job.json:/cluster/nodes: -1 is out of range; accepted are integers from 1 to 16777216");
  CHECK(refused("cluster.nodes", "99999999999999999999") == "job.json:/cluster/nodes: expected an integer, found \"99999999999999999999\"");
  CHECK(refused("cluster.nodes", "1e300") == "job.json:/cluster/nodes: 1e+300 is out of range; accepted are integers from 1 to 16777216");
  CHECK(refused("cluster.node.gpu.memory_bandwidth_gb_per_s", "0") == "job.json:/cluster/node/gpu/memory_bandwidth_gb_per_s: 0 is out of range; accepted are numbers above 0 to 1000000000");
  CHECK(refused("seed", "-9223372036854775808") == "job.json:/seed: -9223372036854775808 is out of range; accepted are integers from 0 to 9007199254740992");
  CHECK(refused("model.heads", "NaN") == "job.json:/model/heads: expected an integer, found \"NaN\"");
}

TEST_CASE("the catalogue is where ORRERY_CONFIG_DIR says") {
  const test::TemporaryFolder folder;
  const char* stated = std::getenv("ORRERY_CONFIG_DIR");
  const std::string old = stated != nullptr ? stated : "";
  ::setenv("ORRERY_CONFIG_DIR", folder.path().c_str(), 1);
  CHECK(document::config_dir().value() == folder.path());
  CHECK(document::catalogue("gpu").value().empty());
  ::setenv("ORRERY_CONFIG_DIR", "/nowhere at all", 1);
  REQUIRE_FALSE(document::config_dir());
  CHECK(to_string(document::config_dir().error()[0]) == "/nowhere at all: is no folder, but ORRERY_CONFIG_DIR names it; name the folder configs of the source tree, or unset it");
  ::setenv("ORRERY_CONFIG_DIR", "", 1);
  CHECK(document::config_dir().value() == std::string(ORRERY_SOURCE_DIR) + "/configs");
  if (old.empty()) ::unsetenv("ORRERY_CONFIG_DIR");
  else ::setenv("ORRERY_CONFIG_DIR", old.c_str(), 1);
}
