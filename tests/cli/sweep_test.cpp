// orrery sweep from the command line: one small sweep, resumed, shown, and what is refused.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "catch.h"
#include "command.hpp"
#include "orrery/base/random.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;
using orrery::test::command;
using orrery::test::Folder;
using orrery::test::Said;

namespace {

std::vector<std::string> sweep(const std::string& job, const std::string& store, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"sweep",   job,      "--vary", "parallelism.tp=1,2,4", "--vary", "training.micro_batch=1,2,3", "--where", "parallelism.tp * training.micro_batch < 12",
                                    "--store", store, "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The program in a process of its own.
pid_t spawn(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> argv = {const_cast<char*>(ORRERY_BINARY)};
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(126);
  ::execv(ORRERY_BINARY, argv.data());
  ::_exit(127);
}

}  // namespace

TEST_CASE("a sweep answers every point, says why the others have no times, and does nothing twice") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall), store = folder.file("job.sweep");
  const Said said = command(sweep(job, store));
  INFO(said.out << said.err);
  REQUIRE(said.code == 0);
  CHECK(said.out.starts_with("9 points: "));
  CHECK(said.out.find("1 excluded: not parallelism.tp * training.micro_batch < 12\n") != std::string::npos);
  const Said again = command(sweep(job, store));
  CHECK(again.code == 0);
  CHECK(again.out == said.out);

  const Said lines = command({"sweep", "show", store, "--json", "-"});
  REQUIRE(lines.code == 0);
  std::istringstream in(lines.out);
  std::string line;
  std::int64_t index = 0;
  while (std::getline(in, line)) {
    const auto row = document::parse(line, "-");
    REQUIRE(row);
    CHECK(row->at("schema") == document::Value("orrery/sweep-row/1"));
    CHECK(row->at("index") == document::Value(index++));
    if (row->at("outcome") != document::Value("refused") && row->at("outcome") != document::Value("excluded")) CHECK(row->at("step_s").as_double() > 0);
  }
  CHECK(index == 9);

  // A row is the prediction of its scenario.
  const Said report = command({"sweep", "show", store, "--report", "3", "--json", "-"});
  REQUIRE(report.code == 0);
  const Said alone = command({"simulate", job, "--set", "parallelism.tp=2", "--set", "training.micro_batch=1", "--json", "-"});
  CHECK(document::parse(report.out, "-")->at("step") == document::parse(alone.out, "-")->at("step"));
}

TEST_CASE("a sweep's rows are the same bytes on one thread and on four") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall);
  std::string one;
  for (const std::string threads : {"1", "4"}) {
    const Said said = command(sweep(job, folder.file(threads), {"--threads", threads, "--json", "-"}));
    REQUIRE(said.code == 0);
    if (one.empty())
      one = said.out;
    else
      CHECK(said.out == one);
  }
}

TEST_CASE("rows are sorted, filtered, cut and compared") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall), store = folder.file("job.sweep");
  REQUIRE(command(sweep(job, store)).code == 0);
  const Said csv = command({"sweep", "show", store, "--where", "outcome == \"fits\" && parallelism.tp >= 2", "--sort", "-tokens_per_s", "--top", "2", "--csv", "-"});
  INFO(csv.err);
  REQUIRE(csv.code == 0);
  CHECK(csv.out.starts_with("parallelism.tp,training.micro_batch,outcome,reason,scenario_hash,index,gpus,step_s,"));
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 3);
  const Said front = command({"sweep", "show", store, "--pareto", "step_s,peak_gib"});
  REQUIRE(front.code == 0);
  CHECK(front.out.starts_with("peak_gib\n"));
  CHECK(front.out.find('*') != std::string::npos);
  std::istringstream in(front.out);
  for (std::string line; std::getline(in, line);) CHECK(line.size() <= 80);
}

TEST_CASE("what a sweep cannot take is refused before anything is stored") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall), store = folder.file("s");
  const auto err = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "sweep");
    const Said said = command(words);
    CHECK(said.code == 2);
    CHECK(said.out.empty());
    return said.err;
  };
  CHECK(err({}) == "orrery: sweep: SCENARIO is required\n");
  CHECK(err({job, "--vary", "a=1"}) == "orrery: sweep: --store FILE is required\n");
  CHECK(err({job, "--store", store}) == "orrery: sweep: nothing varies; give --vary PATH=VALUES\n");
  CHECK(err({job, "--store", store, "--vary", "seed=1..1000000", "--max-runs", "10"}) ==
        "orrery: sweep: 1000000 points are more than --max-runs 10; take fewer values, --sample lhs:N, or raise --max-runs\n");
  CHECK(err({job, "--store", store, "--vary", "seed=1..1000000", "--vary", "parallelism.tp=1,2"}).find("2000000 points are more than --max-runs 100000;") != std::string::npos);
  CHECK(err({job, "--store", store, "--vary", "seed=1,2", "--sample", "sobol:5"}) == "orrery: --sample sobol:5: expected random:N or lhs:N, N a whole number from 1 to 999999999\n");
  CHECK(err({job, "--store", store, "--vary", "parallelism.tpp=1,2"}).find("unknown member; did you mean \"tp\"?") != std::string::npos);
  CHECK(err({job, "--store", store, "--vary", "seed=1", "--where", "1 +"}).find("expression \"1 +\": ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(store));
  CHECK(err({"show", folder.file("none")}).find("there is no such file") != std::string::npos);
  REQUIRE(command({"sweep", job, "--store", store, "--vary", "seed=1"}).code == 0);
  CHECK(err({job, "--store", store, "--vary", "seed=2"}).find("holds another sweep (different: axes); give another --store") != std::string::npos);
  CHECK(err({"show", store, "--sort", "step"}).find("sweep show: a row has no step; it has index, ") != std::string::npos);
  CHECK(err({"show", store, "--where", "nothing > 1"}).find("there is no nothing") != std::string::npos);
  CHECK(err({"show", store, "--report", "7"}).find("holds no point 7") != std::string::npos);
}

TEST_CASE("a sweep that is killed again and again ends with the same rows as one that is not", "[slow]") {
  const Folder folder;
  const std::string job = folder.write("job.json", orrery::test::kSmall);
  const auto words = [&](const std::string& store) {
    return std::vector<std::string>{"sweep", job, "--vary", "seed=1..200", "--vary", "training.micro_batch=1,2,3,4,5", "--vary", "parallelism.tp=1,2", "--store", folder.file(store), "--quiet"};
  };
  REQUIRE(command(words("whole")).code == 0);
  int ended = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const pid_t child = spawn(words("killed"));
    REQUIRE(child > 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + random_bits(3, "kill", i) % 400));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ended += WIFEXITED(status) ? 1 : 0;
  }
  REQUIRE(command(words("killed")).code == 0);
  CHECK(command({"sweep", "show", folder.file("killed"), "--json", "-"}).out == command({"sweep", "show", folder.file("whole"), "--json", "-"}).out);
  WARN("20 kills, of which " << 20 - ended << " hit a running sweep");
}
