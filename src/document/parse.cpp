// JSON text to Value. The JSON library tells us what it reads (SAX); what it would let pass (duplicate members, any depth, integers
// that silently become doubles) is refused here, with line and column.
#include <iterator>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "orrery/document/value.hpp"
#include "utf8.hpp"

namespace orrery::document {
namespace {

constexpr std::size_t kDeepest = 64;                 // real documents reach 7; recursion over a Value stays bounded
constexpr std::size_t kMostValues = 4'000'000;        // each takes some 60 bytes; the largest measurement sets have a tenth of them
constexpr std::size_t kLongest = 64U * 1024 * 1024;  // bytes; the largest measurement sets are a tenth of this

/// An iterator that tells a shared counter how far the library has read, since SAX events carry no position.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (reached_ != nullptr) *reached_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_ = nullptr;
  const char** reached_ = nullptr;
};

/// Line and column, from 1, in characters.
std::string place(std::string_view text, std::size_t offset) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < std::min(offset, text.size()); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

/// The library's reason without its own location and list of tokens: "[…] parse error at …: syntax error while parsing value -
/// invalid literal; last read: …" is "invalid literal".
std::string reason(std::string_view what) {
  const std::size_t dash = what.find(" - ");
  if (dash != std::string_view::npos) what.remove_prefix(dash + 3);
  what = what.substr(0, what.find(';'));
  for (std::string_view noise : {"invalid string: ", "invalid number; ", "unexpected end of input"}) {
    if (noise == what) break;
    if (what.starts_with(noise)) what.remove_prefix(noise.size());
  }
  return std::string(what);
}

class Builder {
 public:
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  Builder(std::string_view text, const char* const* reached) : text_(text), reached_(reached) {}

  bool null() { return add(Value()); }
  bool boolean(bool v) { return add(Value(v)); }
  bool number_integer(std::int64_t v) { return add(Value(v)); }
  bool number_unsigned(std::uint64_t v) {
    if (v > static_cast<std::uint64_t>(INT64_MAX)) return refuse_integer(fmt::format("{}", v));
    return add(Value(static_cast<std::int64_t>(v)));
  }
  bool number_float(double v, const std::string& literal) {
    if (literal.find_first_of(".eE") == std::string::npos) return refuse_integer(literal);  // past uint64 the library falls back to double
    return add(Value(v));
  }
  bool string(std::string& v) { return add(Value(std::move(v))); }
  bool binary(binary_t&) { return refuse(0, "binary data is no JSON"); }
  bool start_object(std::size_t) { return open(Value(Value::Object())); }
  bool start_array(std::size_t) { return open(Value(Value::Array())); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!open_.back().names.insert(name).second) return refuse(name.size() + 2, fmt::format("the member \"{}\" appears twice", name));
    open_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& e) {
    constexpr int kOutOfRange = 406;  // "number overflow": no double holds it
    const std::size_t offset = position > 0 ? position - 1 : 0;
    if (e.id == kOutOfRange) return refuse(token.size() + 1, fmt::format("the number {} is out of range: no 64-bit floating point number holds it", token.substr(0, 40)));
    if (offset >= text_.size()) return refuse_at(text_.size(), "the text ends before the document does");
    if (text_[offset] == '\0') return refuse_at(offset, "not JSON: a NUL");  // where the library believes the text ends
    return refuse_at(offset, fmt::format("not JSON: {}", reason(e.what())));
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Value take() { return std::move(root_); }

 private:
  struct Open {
    Value value;
    std::string key;
    std::unordered_set<std::string> names;
  };

  bool add(Value v) {
    if (++values_ > kMostValues) return refuse(0, fmt::format("more than {} values", kMostValues));
    if (open_.empty()) {
      root_ = std::move(v);
    } else if (Open& parent = open_.back(); parent.value.is_array()) {
      parent.value.items().push_back(std::move(v));
    } else {
      parent.value.members().emplace_back(std::move(parent.key), std::move(v));
    }
    return true;
  }
  bool open(Value v) {
    if (open_.size() == kDeepest) return refuse(1, fmt::format("nested deeper than {} levels", kDeepest));
    open_.push_back(Open{std::move(v), {}, {}});
    return true;
  }
  bool close() {
    Value v = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(v));
  }
  bool refuse_integer(const std::string& literal) {
    return refuse(literal.size() + 1, fmt::format("the integer {} is out of range: accepted are {} to {}", literal.substr(0, 40), INT64_MIN, INT64_MAX));
  }
  /// length: of what was just read, so that the place is where it starts.
  bool refuse(std::size_t length, const std::string& text) {
    const auto read = static_cast<std::size_t>(*reached_ - text_.data());
    return refuse_at(read >= length ? read - length : 0, text);
  }
  bool refuse_at(std::size_t offset, const std::string& text) {
    if (problem_.empty()) problem_ = fmt::format("{}: {}", place(text_, offset), text);
    return false;
  }

  std::string_view text_;
  const char* const* reached_;
  std::vector<Open> open_;
  Value root_;
  std::string problem_;
  std::size_t values_ = 0;
};

std::optional<std::string> refuse_bytes(std::string_view text) {
  if (text.size() > kLongest) return fmt::format("longer than {} MiB", kLongest >> 20);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "is empty; a JSON document is expected";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence(text, i);
    if (length == 0) return fmt::format("{}: not UTF-8", place(text, i));
    i += length;
  }
  return std::nullopt;
}

}  // namespace

Result<Value> parse(std::string_view text, const std::string& file) {
  if (const auto problem = refuse_bytes(text)) return fail(file, "", *problem);
  const char* reached = text.data();
  Builder builder(text, &reached);
  const CountingIterator first(text.data(), &reached), last(text.data() + text.size(), nullptr);
  if (!nlohmann::json::sax_parse(first, last, &builder, nlohmann::json::input_format_t::json, true, true)) return fail(file, "", builder.problem());
  return builder.take();
}

}  // namespace orrery::document
