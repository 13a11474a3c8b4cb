// The loop over two processes of this machine: products and collectives measured, fitted, checked, and a data-parallel step predicted with them beside
// the same step run with BLAS and MPI.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "catch.h"
#include "command.hpp"
#include "orrery/document/value.hpp"

using namespace orrery;
using orrery::test::command;
using orrery::test::Folder;
using orrery::test::Said;

#ifdef ORRERY_HOST_STEP

namespace {

/// What a shell command printed, and how it ended.
Said shell(const std::string& line) {
  Said said;
  FILE* pipe = ::popen((line + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) said.out += part.data();
  said.code = ::pclose(pipe);
  return said;
}

/// Two processes, as many cores as there may be, root or not.
const std::string kTwo = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1 mpirun --oversubscribe -n 2 ";

document::Value read(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto value = document::parse(text, path);
  REQUIRE(value);
  return *value;
}

double best_us(const document::Value& point) {
  double best = 1e18;
  for (const auto& t : point.at("time_us").items()) best = std::min(best, t.as_double());
  return best;
}

}  // namespace

TEST_CASE("two processes: measured, fitted, checked, and a step predicted beside the real one", "[slow]") {
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) {
    WARN("mpirun was not found");
    return;
  }
  const Folder folder;
  const std::string set = folder.file("two.json"), profile = folder.file("profile.json");
  const Said ran = shell(kTwo + ORRERY_BINARY + " calibrate run --backend host --mpi --threads 1 --shapes quick --repetitions 5 --quiet -o " + set);
  INFO(ran.out);
  REQUIRE(ran.code == 0);

  // A process as a device: one core, a little faster than the best that was seen.
  const document::Value measured = read(set);
  double flops = 0, bytes = 0;
  std::array<int, 5> collectives{};
  const std::array<const char*, 5> kinds = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};
  for (const auto& p : measured.at("points").items()) {
    const std::string& kind = p.at("kind").as_string();
    if (kind == "gemm") flops = std::max(flops, 2 * p.at("m").as_double() * p.at("n").as_double() * p.at("k").as_double() / best_us(p) * 1e6);
    if (kind == "stream") bytes = std::max(bytes, (p.at("read_bytes").as_double() + p.at("write_bytes").as_double()) / best_us(p) * 1e6);
    if (kind != "collective") continue;
    CHECK(p.at("ranks").as_int() == 2);
    for (std::size_t k = 0; k < kinds.size(); ++k) collectives[k] += p.at("collective").as_string() == kinds[k] ? 1 : 0;
  }
  for (const int sizes : collectives) CHECK(sizes == 15);
  const std::string device = folder.write("core.json", fmt::format(R"({{"schema": "orrery/gpu/1", "extends": "xeon-8380-2s", "name": "core", "sm_count": 1, "memory_bandwidth_gb_per_s": {:.3f}, "peak_tflops": {{"fp32": {:.6f}}}}})",
                                                                    1.1 * bytes / 1e9, 1.1 * flops / 1e12));
  const Said fitted = command({"calibrate", "fit", set, "--gpu", device, "-o", profile, "--bootstrap", "2", "--quiet"});
  INFO(fitted.err);
  REQUIRE(fitted.code == 0);
  CHECK(fitted.out.find("collective/all_reduce/2x1") != std::string::npos);
  CHECK(command({"calibrate", "check", set, set}).code == 0);

  const std::string node = folder.write("box.json", R"({"schema": "orrery/node/1", "extends": "server-xeon-8380-2s", "name": "box", "gpu": "core.json", "gpus": 2})");
  const std::string scenario = folder.write("step.json", fmt::format(R"({{
    "schema": "orrery/scenario/1", "name": "perceptron on two processes",
    "model": {{"schema": "orrery/model/1", "name": "perceptron", "family": "mlp", "widths": [768, 1024, 640, 384], "bias": true, "activation": "relu", "loss": "cross_entropy"}},
    "training": {{"sequence_length": 1, "global_batch": 512, "micro_batch": 256, "precision": "fp32", "optimizer": "sgd"}},
    "parallelism": {{"dp": 2, "overlap": {{"grad_reduce": false}}}},
    "cluster": {{"node": "box.json", "nodes": 1}},
    "stack": {{"extends": "pytorch-ddp", "host": {{"step_us": 0, "forward_op_us": 0, "backward_op_us": 0, "collective_us": 0, "optimizer_us": 0, "sync_us": 0}}}},
    "calibration": "{}"}})", profile));
  const Said simulated = command({"simulate", scenario, "--json", "-", "--quiet"});
  INFO(simulated.err);
  REQUIRE(simulated.code == 0);
  const auto report = document::parse(simulated.out, "-");
  REQUIRE(report);
  const double predicted = 1e6 * report->at("step").at("time_s").as_double();

  const Said real = shell(kTwo + ORRERY_HOST_STEP + " 15 256 768 1024 640 384");
  INFO(real.out);
  REQUIRE(real.code == 0);
  const double us = std::strtod(real.out.c_str(), nullptr);
  REQUIRE(us > 0);
  WARN("a step of two processes: predicted " << predicted << " us, measured " << us << " us, error " << 100 * (predicted / us - 1) << " %");
  // Others use the machine's cores meanwhile: the prediction is of the right size, no more can be asked.
  CHECK(predicted > us / 10);
  CHECK(predicted < us * 10);

  // A run that was interrupted goes on where it stopped, and does not mix two machines.
  const Said again = shell(kTwo + ORRERY_BINARY + " calibrate run --backend host --mpi --threads 1 --shapes quick --repetitions 5 --resume -o " + set);
  CHECK(again.code == 0);
  CHECK(again.out.find("points, ") == std::string::npos);
  CHECK(read(set).at("points").items().size() == measured.at("points").items().size());
}

#endif

TEST_CASE("calibrate run says what it lacks and what it cannot time") {
  const Folder folder;
  const std::string out = folder.file("set.json");
  CHECK(command({"calibrate", "run"}).err.find("calibrate: run: -o FILE is required") != std::string::npos);
  CHECK(command({"calibrate", "run", "--backend", "rocm", "-o", out}).err == "orrery: calibrate: run: --backend: accepted are host, cuda\n");
  CHECK(command({"calibrate", "run", "--shapes", "all", "-o", out}).err == "orrery: calibrate: run: --shapes: accepted are quick, standard, full\n");
  const Said cuda = command({"calibrate", "run", "--backend", "cuda", "-o", out});
  if (cuda.code != 0) {
    INFO(cuda.err);
    const bool named = cuda.err.find("no GPU can be measured here: ") != std::string::npos || cuda.err.find("this build has no liborrery_cuda.so: no CUDA toolkit with nvcc, cuBLASLt and NCCL was found when it was configured") != std::string::npos ||
                       cuda.err.find("liborrery_cuda.so cannot be loaded: ") != std::string::npos;
    CHECK(named);
  }
  // A decoder's products are in types that a CPU's BLAS does not multiply; its memory-bound kernels are timed.
  const Said decoder = command({"calibrate", "run", "--for", folder.write("small.json", test::kSmall), "--repetitions", "1", "-o", out});
  INFO(decoder.err);
  if (decoder.err.find("this build has no host back end") != std::string::npos) return;
  CHECK(decoder.err.find("the host's BLAS multiplies fp32, not ") != std::string::npos);
  CHECK(command({"calibrate", "run", "--for", folder.file("absent.json"), "-o", out}).code == 2);
}
