// orrery doctor: is the catalogue there, is every entry of it sound, and which devices does this machine have?
#include <fmt/format.h>

#include "command.hpp"
#include "common.hpp"
#include "orrery/measure/devices.hpp"
#include "orrery/report/report.hpp"

namespace orrery::cli {

namespace {

class Doctor : public Verb {
 public:
  void define(Arguments /*arguments*/) override {}

  int run(Streams& s) override {
    const auto directory = document::config_dir();
    if (!directory) return refused(s, directory.error());
    std::string text = fmt::format("orrery {}\ncatalogue {}\n", report::version(), *directory);
    Diagnostics sick;
    for (std::string_view kind : {"model", "gpu", "node", "fabric", "stack", "profile"}) {
      const auto names = document::catalogue(kind);
      if (!names) return refused(s, names.error());
      if (names->empty()) sick.push_back({*directory, "", fmt::format("holds no {} at all; set ORRERY_CONFIG_DIR to the folder configs of the source tree", kind)});
      std::size_t sound = 0;
      for (const std::string& name : *names) {
        const auto entry = document::load(kind, document::Value(name), name, "", "");
        if (entry)
          ++sound;
        else
          sick.insert(sick.end(), entry.error().begin(), entry.error().end());
      }
      text += fmt::format("  {:<8}{:>4} of {} sound\n", kind, sound, names->size());
    }
    text += measure::to_string(measure::devices());
    if (const int code = print(s, text); code != kSuccess) return code;
    if (sick.empty()) return kSuccess;
    refused(s, sick);
    return kNo;
  }
};

}  // namespace

std::unique_ptr<Verb> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace orrery::cli
