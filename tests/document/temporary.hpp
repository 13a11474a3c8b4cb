#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include <stdlib.h>

#include "orrery/base/assert.hpp"

namespace orrery::test {

/// A folder that goes with its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "orrery-test-XXXXXX").string();
    ORRERY_ASSERT(::mkdtemp(name.data()) != nullptr, "tests can write to the temporary folder");
    root_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(root_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string path(const std::string& name = "") const { return (name.empty() ? root_ : root_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
    return path(name);
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(root_)) ++n;
    return n;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace orrery::test
