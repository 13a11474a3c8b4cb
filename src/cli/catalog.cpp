// orrery catalog: what can be named in a scenario.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/base/text.hpp"

namespace orrery::cli {

namespace {

constexpr std::array<std::string_view, 6> kKinds = {"model", "gpu", "node", "fabric", "stack", "profile"};

class Catalog : public Verb {
 public:
  void define(Arguments arguments) override {
    Arguments list = arguments.subcommand("list", "names, by kind", list_);
    list.positional("KIND", kind_, "model, gpu, node, fabric, stack or profile; all unless given", false);
    list.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
    Arguments show = arguments.subcommand("show", "one entry, complete with defaults", show_);
    show.positional("NAME", name_, "NAME, or KIND/NAME where several kinds have it");
    show.text("--json", output_.json, "write JSON to FILE, or to standard output with -", "FILE");
  }

  int run(Streams& s) override { return list_ ? list(s) : show(s); }

 private:
  int list(Streams& s) const {
    document::Value::Object kinds;
    std::string text;
    for (std::string_view kind : kKinds) {
      if (!kind_.empty() && kind != kind_) continue;
      const auto names = document::catalogue(kind);
      if (!names) return refused(s, names.error());
      document::Value::Array list;
      for (const std::string& name : *names) {
        list.emplace_back(name);
        text += kind_.empty() ? fmt::format("{}/{}\n", kind, name) : name + "\n";
      }
      kinds.emplace_back(kind, std::move(list));
    }
    if (kinds.empty()) {
      const std::vector<std::string> known(kKinds.begin(), kKinds.end());
      return usage_error(s, fmt::format("catalog list: unknown kind \"{}\"{}", kind_, did_you_mean(kind_, known)));
    }
    return deliver(s, output_, document::Value(std::move(kinds)), text);
  }

  int show(Streams& s) const {
    const std::size_t slash = name_.find('/');
    const std::string name = slash == std::string::npos ? name_ : name_.substr(slash + 1);
    std::vector<std::string_view> having;
    std::vector<std::string> all;
    for (std::string_view kind : kKinds) {
      if (slash != std::string::npos && kind != name_.substr(0, slash)) continue;
      const auto names = document::catalogue(kind);
      if (!names) return refused(s, names.error());
      if (std::find(names->begin(), names->end(), name) != names->end()) having.push_back(kind);
      all.insert(all.end(), names->begin(), names->end());
    }
    if (having.empty()) return usage_error(s, fmt::format("catalog show: nothing is called \"{}\"{}", name_, did_you_mean(name, all)));
    if (having.size() > 1) return usage_error(s, fmt::format("catalog show: \"{}\" is a {} and a {}; use {}/{}", name, having[0], having[1], having[0], name));
    const auto entry = document::load(having[0], document::Value(name), name, "", "");
    if (!entry) return refused(s, entry.error());
    return deliver(s, output_, entry->value, document::dump(entry->value) + "\n");
  }

  OutputOptions output_;
  std::string kind_, name_;
  bool list_ = false, show_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_catalog() { return std::make_unique<Catalog>(); }

}  // namespace orrery::cli
