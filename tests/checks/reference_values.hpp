#pragma once
// Every reference value of the model's description, by id: the file under tests/ that checks it, or why it has to wait.
#include <string>
#include <vector>

namespace orrery::test {

struct ReferenceValue {
  std::string id;
  std::string file;   ///< under tests/; holds the id as a string
  std::string later;  ///< where there is no file: what it waits for
};
const std::vector<ReferenceValue>& reference_values();

}  // namespace orrery::test
