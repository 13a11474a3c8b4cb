// A profile as text that people read and compare: a parameter on a line, numbers of a table many to a line.
#include <algorithm>

#include "orrery/calibration/profile.hpp"
#include "orrery/document/value.hpp"

namespace orrery::calibration {
namespace {

using document::Value;

constexpr std::size_t kWidth = 150;

bool is_scalar(const Value& v) { return !v.is_array() && !v.is_object(); }

void append(std::string& out, const Value& v, std::size_t depth) {
  const std::string inside(depth + 1, ' '), outside(depth, ' ');
  if (v.is_array()) {
    const auto& items = v.items();
    const bool scalars = std::all_of(items.begin(), items.end(), [](const Value& i) { return is_scalar(i) && !i.is_string(); });
    std::size_t line = out.size();
    out += "[";
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!scalars || (i > 0 && out.size() - line > kWidth)) {
        out += "\n" + inside;
        line = out.size();
      }
      append(out, items[i], depth + 1);
      if (i + 1 < items.size()) out += ",";
    }
    if (!scalars && !items.empty()) out += "\n" + outside;
    out += "]";
    return;
  }
  if (v.is_object()) {
    const auto& members = v.members();
    const bool flat = depth > 0 && std::all_of(members.begin(), members.end(), [](const auto& m) { return is_scalar(m.second); });
    out += "{";
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!flat) out += "\n" + inside;
      out += document::dump(Value(members[i].first), -1) + ": ";
      append(out, members[i].second, depth + 1);
      if (i + 1 < members.size()) out += flat ? ", " : ",";
    }
    if (!flat && !members.empty()) out += "\n" + outside;
    out += "}";
    return;
  }
  out += document::dump(v, -1);
}

}  // namespace

std::string to_text(const Profile& profile) {
  std::string out;
  append(out, to_value(profile), 0);
  return out + "\n";
}

}  // namespace orrery::calibration
