// The program itself, as a shell runs it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.h"
#include "orrery/document/value.hpp"

namespace {

struct Ended {
  int code = 0;
  std::string out;
};
Ended shell(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) ended.out.append(buffer, n);
  ended.code = WEXITSTATUS(::pclose(pipe));
  return ended;
}

const std::string kOrrery = ORRERY_BINARY;
const std::string kScenario = R"('{"schema": "orrery/scenario/1", "model": "llama-3.1-8b", "training": {"sequence_length": 2048, "global_batch": 8, "micro_batch": 1,
  "recompute": "full"}, "parallelism": {"tp": 8}, "cluster": {"node": "dgx-h100", "nodes": 1}}')";

}  // namespace

TEST_CASE("a scenario from standard input becomes pure JSON on standard output") {
  const Ended ended = shell("echo " + kScenario + " | " + kOrrery + " simulate - --json - 2>/dev/null");
  CHECK(ended.code == 0);
  CHECK(orrery::document::parse(ended.out, "stdout"));
}

TEST_CASE("the table in a pipe has no escapes") {
  const Ended ended = shell("echo " + kScenario + " | " + kOrrery + " simulate - 2>/dev/null");
  CHECK(ended.code == 0);
  CHECK(ended.out.find('\x1b') == std::string::npos);
}

TEST_CASE("a full disk is an error, on standard output and in a file, whose message is the only output") {
  const std::string simulate = "echo " + kScenario + " | " + kOrrery + " simulate - --quiet ";
  CHECK(shell(simulate + "2>&1 >/dev/full").code == 2);
  CHECK(shell(simulate + "2>&1 >/dev/full").out == "orrery: standard output cannot be written\n");
  const Ended file = shell(simulate + "--json /dev/full 2>/dev/null");
  CHECK(file.code == 2);
  CHECK(file.out.empty());
}

TEST_CASE("bad input ends with 2 and an empty stdout; a job that does not fit ends with 1") {
  CHECK(shell("echo '{' | " + kOrrery + " simulate - --json - 2>/dev/null").code == 2);
  CHECK(shell("echo '{' | " + kOrrery + " simulate - --json - 2>/dev/null").out.empty());
  CHECK(shell("echo " + kScenario + " | " + kOrrery + " simulate - --set cluster.node.gpu.memory_capacity_gib=4 2>/dev/null").code == 1);
}

TEST_CASE("an interrupt ends with 130") {
  const std::string fifo = (std::filesystem::temp_directory_path() / ("orrery-fifo-" + std::to_string(::getpid()))).string();
  const Ended ended = shell("mkfifo " + fifo + "; (trap - INT; exec " + kOrrery + " simulate - < " + fifo + ") & pid=$!; exec 9> " + fifo +
                            "; sleep 0.2; kill -INT $pid; wait $pid");
  std::filesystem::remove(fifo);
  CHECK(ended.code == 130);
}
