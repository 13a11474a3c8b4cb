#include <cmath>

#include <fmt/format.h>

#include "orrery/base/assert.hpp"
#include "orrery/document/value.hpp"
#include "utf8.hpp"

namespace orrery::document {
namespace {

/// Appends a JSON string. Bytes that are not UTF-8 (a file's name may hold any) become U+FFFD, so that the output always is JSON.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence(text, i);
    const char c = text[i];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

/// The shortest text that reads back as the same double, always with a point or an exponent so that it stays a double.
void append_double(std::string& out, double d) {
  ORRERY_ASSERT(std::isfinite(d), "only finite numbers reach a document");
  const std::string text = fmt::format("{}", d);
  out += text;
  if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

class Dumper {
 public:
  explicit Dumper(int indent) : indent_(indent) {}

  void append(std::string& out, const Value& v) {
    if (v.is_null()) {
      out += "null";
    } else if (v.is_bool()) {
      out += v.as_bool() ? "true" : "false";
    } else if (v.is_int()) {
      out += fmt::format("{}", v.as_int());
    } else if (v.is_number()) {
      append_double(out, v.as_double());
    } else if (v.is_string()) {
      append_string(out, v.as_string());
    } else if (v.is_array()) {
      append_list(out, v.items(), '[', ']', [&](const Value& item) { append(out, item); });
    } else {
      append_list(out, v.members(), '{', '}', [&](const auto& member) {
        append_string(out, member.first);
        out += indent_ < 0 ? ":" : ": ";
        append(out, member.second);
      });
    }
  }

 private:
  template <class List, class AppendItem>
  void append_list(std::string& out, const List& list, char open, char close, const AppendItem& append_item) {
    out += open;
    ++depth_;
    bool first = true;
    for (const auto& item : list) {
      if (!first) out += ',';
      first = false;
      append_break(out);
      append_item(item);
    }
    --depth_;
    if (!first) append_break(out);
    out += close;
  }
  void append_break(std::string& out) const {
    if (indent_ < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent_) * depth_, ' ');
  }

  int indent_;
  std::size_t depth_ = 0;
};

}  // namespace

std::string dump(const Value& value, int indent) {
  std::string out;
  Dumper(indent).append(out, value);
  return out;
}

}  // namespace orrery::document
