// The only file that includes muParserX.
#include "orrery/search/expression.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <muparserx/mpParser.h>

namespace orrery::search {

namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

constexpr const char* kNameCharacters = "0123456789_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

mup::ParserX parser(const std::string& text) {
  mup::ParserX p(mup::pckCOMMON | mup::pckNON_COMPLEX | mup::pckSTRING);
  p.DefineNameChars(kNameCharacters);
  p.SetExpr(text);
  return p;
}

/// Null: a number that no comparison holds for.
mup::Value of(const document::Value& v) {
  if (v.is_bool()) return mup::Value(v.as_bool());
  if (v.is_number()) return mup::Value(v.as_double());
  if (v.is_string()) return mup::Value(v.as_string());
  return mup::Value(std::nan(""));
}

}  // namespace

Result<Expression> Expression::make(std::string text) {
  Expression e;
  e.text_ = std::move(text);
  if (e.text_.size() > 4096) return fail("", "", "an expression of over 4,096 characters");
  try {
    mup::ParserX p = parser(e.text_);
    for (const auto& [name, unused] : p.GetExprVar()) e.names_.push_back(name);
  } catch (const mup::ParserError& error) {
    return fail("", "", fmt::format("expression \"{}\": {}", e.text_, one_line(error.GetMsg())));
  }
  std::sort(e.names_.begin(), e.names_.end());
  return e;
}

Result<bool> Expression::holds(const std::function<const document::Value*(const std::string&)>& value) const {
  std::vector<mup::Value> values;
  values.reserve(names_.size());  // the parser keeps pointers to them
  try {
    mup::ParserX p = parser(text_);
    for (const std::string& name : names_) {
      const document::Value* v = value(name);
      if (v == nullptr) return fail("", "", fmt::format("expression \"{}\": there is no {}", text_, name));
      if (v->is_array() || v->is_object()) return fail("", "", fmt::format("expression \"{}\": {} is {}", text_, name, v->is_array() ? "an array" : "an object"));
      values.push_back(of(*v));
      p.DefineVar(name, mup::Variable(&values.back()));
    }
    const mup::Value& result = p.Eval();
    if (result.GetType() == 'b') return result.GetBool();
    if (result.IsScalar()) return result.GetFloat() != 0 && !std::isnan(result.GetFloat());
    return fail("", "", fmt::format("expression \"{}\": neither true, false nor a number", text_));
  } catch (const mup::ParserError& error) {
    return fail("", "", fmt::format("expression \"{}\": {}", text_, one_line(error.GetMsg())));
  }
}

}  // namespace orrery::search
