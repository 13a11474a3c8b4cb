#pragma once
// A command line run in this process, a folder of its own for its files, and a small job.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "orrery/cli/cli.hpp"

namespace orrery::test {

struct Said {
  int code = 0;
  std::string out, err;
};
inline Said command(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  cli::Streams streams{out, err};
  const int code = cli::run(arguments, streams);
  return {code, out.str(), err.str()};
}

/// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("orrery-cli-" + std::to_string(::getpid()) + "-" + std::to_string(++count_))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

inline const std::string kSmall = R"({
  // eight GPUs, two stages
  "schema": "orrery/scenario/1", "name": "small", "model": "llama-3.1-8b",
  "training": {"sequence_length": 4096, "global_batch": 32, "micro_batch": 1, "recompute": "full"},
  "parallelism": {"tp": 2, "pp": 2, "zero": 1},
  "cluster": {"node": "dgx-h100", "nodes": 1}, "stack": "megatron-core"
})";

}  // namespace orrery::test
