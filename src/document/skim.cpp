#include "orrery/document/skim.hpp"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

namespace orrery::document {
namespace {

/// Listens to the JSON library and keeps what stands at the top.
class Listener {
 public:
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string& v) {
    if (skimmed_.members.empty() || depth_ == 0 || depth_ > 2) return true;
    Skimmed::Member& member = skimmed_.members.back();
    if (depth_ == 1 || member.is_array) member.texts.push_back(std::move(v));
    return true;
  }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) {
    is_object_ = is_object_ || depth_ == 0;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0) return false;
    if (depth_ == 1) skimmed_.members.back().is_array = true;
    ++depth_;
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (depth_ == 1) skimmed_.members.push_back({std::move(name), false, {}});
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) { return false; }

  [[nodiscard]] bool is_object() const { return is_object_; }
  [[nodiscard]] Skimmed take() { return std::move(skimmed_); }

 private:
  bool close() {
    --depth_;
    return true;
  }

  Skimmed skimmed_;
  std::size_t depth_ = 0;
  bool is_object_ = false;
};

}  // namespace

const Skimmed::Member* Skimmed::find(std::string_view name) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
  return found == members.end() ? nullptr : &*found;
}

std::string Skimmed::text(std::string_view name) const {
  const Member* member = find(name);
  return member == nullptr || member->is_array || member->texts.empty() ? std::string() : member->texts.front();
}

std::vector<std::string> Skimmed::texts(std::string_view name) const {
  const Member* member = find(name);
  return member == nullptr || !member->is_array ? std::vector<std::string>() : member->texts;
}

std::optional<Skimmed> skim(std::string_view text) {
  Listener listener;
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &listener, nlohmann::json::input_format_t::json, true, true)) return std::nullopt;
  if (!listener.is_object()) return std::nullopt;
  return listener.take();
}

}  // namespace orrery::document
