#pragma once
// A sweep's results in one SQLite file: what was asked, and one row a point. A row is stored whole or not at all, so a sweep that was killed goes
// on where it stopped.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "orrery/search/sweep.hpp"

namespace orrery::search {

class Store {
 public:
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// For writing, by one process at a time. A new file takes the definition (orrery/sweep/1); an old one must hold the same.
  /// Diagnostics: a file that cannot be opened or written, or is no store; another definition, with what differs; another process that writes.
  static Result<Store> open(const std::string& path, const document::Value& definition);
  /// For reading, also while another process writes.
  static Result<Store> read(const std::string& path);

  [[nodiscard]] const document::Value& definition() const { return definition_; }
  /// Indices that have a row, ascending.
  [[nodiscard]] Result<std::vector<std::uint64_t>> stored() const;
  /// All of them or none. A row whose index is stored already is left as it is.
  Result<bool> add(std::span<const PointRow> rows);
  /// Every row's JSON text in order of index, until `take` returns false.
  [[nodiscard]] Result<bool> each(const std::function<bool(const std::string& json)>& take) const;

 private:
  struct Handle;
  explicit Store(std::string path);
  std::string path_;
  std::unique_ptr<Handle> handle_;
  document::Value definition_;
};

}  // namespace orrery::search
