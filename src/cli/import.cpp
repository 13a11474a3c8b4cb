// orrery import: what a machine says of itself, as a node or fabric file.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/importers/importers.hpp"

namespace orrery::cli {

namespace {

using document::Value;

Value texts(const std::vector<std::string>& list) { return Value(Value::Array(list.begin(), list.end())); }

class Import : public Verb {
 public:
  void define(Arguments a) override {
    a.positional("FILE", file_, "a topology as nvidia-smi, NCCL, InfiniBand or Slurm print it");
    a.text("-o", target_, "write the node or fabric to FILE; to standard output unless given", "FILE");
    a.text("--name", options_.name, "name of the node or fabric; the file's unless given", "NAME");
    a.text("--gpu", options_.gpu, "catalogue name of the GPU, where the file does not say", "NAME");
    a.text("--json", output_.json, "write the coverage as JSON to FILE, or to standard output with -", "FILE");
  }

  int run(Streams& s) override {
    if (same_file(target_, file_)) return usage_error(s, fmt::format("-o {} would replace what it imports", target_));
    if (same_file(output_.json, file_)) return usage_error(s, fmt::format("--json {} would replace what it imports", output_.json));
    if (same_file(output_.json, target_)) return usage_error(s, fmt::format("-o and --json both write {}", target_));
    const auto text = document::read_file(file_);
    if (!text) return refused(s, text.error());
    if (options_.name.empty()) options_.name = std::filesystem::path(file_).stem().string();
    const auto imported = importers::import_topology(*text, file_, options_);
    if (!imported) return refused(s, imported.error());
    const std::string node = document::dump(imported->document) + "\n";
    if (!target_.empty()) {
      if (const auto written = document::write_file(target_, node); !written) return refused(s, written.error());
    }
    if (!output_.json.empty()) return deliver(s, output_, coverage(*imported), summary(*imported));
    if (!target_.empty()) return print(s, summary(*imported));
    s.err << summary(*imported);
    return print(s, node);
  }

 private:
  static Value coverage(const importers::Imported& i) {
    Value::Array unread;
    for (const importers::Unread& u : i.unread) unread.push_back(Value::Object{{"line", u.number}, {"text", u.text}, {"why", u.why}});
    Value::Array paths;
    for (const auto& row : i.paths) {
      Value::Array cells;
      for (const cluster::PathClass& c : row) cells.emplace_back(to_string(c));
      paths.emplace_back(std::move(cells));
    }
    return Value::Object{{"schema", "orrery/import/1"}, {"kind", i.kind}, {"format", i.format}, {"lines", i.lines}, {"understood", texts(i.understood)},
                         {"taken", texts(i.taken)}, {"not_understood", std::move(unread)}, {"gpus", texts(i.gpus)}, {"nics", texts(i.nics)},
                         {"paths", std::move(paths)}, {"document", i.document}};
  }

  static std::string summary(const importers::Imported& i) {
    std::string text = fmt::format("{}: {} of {} lines understood\n", i.format, i.lines - static_cast<int>(i.unread.size()), i.lines);
    for (const std::string& line : i.understood) text += fmt::format("  understood  {}\n", line);
    for (const std::string& line : i.taken) text += fmt::format("  taken       {}\n", line);
    constexpr std::size_t kShown = 20;
    for (std::size_t k = 0; k < std::min(kShown, i.unread.size()); ++k) {
      text += fmt::format("  line {:<6} not understood ({}): {}\n", i.unread[k].number, i.unread[k].why, i.unread[k].text);
    }
    if (i.unread.size() > kShown) text += fmt::format("  and {} more; --json lists them\n", i.unread.size() - kShown);
    return text;
  }

  std::string file_, target_;
  importers::Options options_;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Verb> make_import() { return std::make_unique<Import>(); }

}  // namespace orrery::cli
