#pragma once
// A look at a document without building it: what its own members say in words, for a choice between many files of which few are read.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::document {

/// The members of an object that are strings or arrays of strings; of the rest only the names.
struct Skimmed {
  struct Member {
    std::string name;
    bool is_array = false;
    std::vector<std::string> texts;  ///< the string, or those of the array
  };
  std::vector<Member> members;

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// "" and none where there is no such member, or it is something else.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;

 private:
  [[nodiscard]] const Member* find(std::string_view name) const;
};

/// Nothing where the text is no JSON object; a whole read says why.
std::optional<Skimmed> skim(std::string_view text);

}  // namespace orrery::document
