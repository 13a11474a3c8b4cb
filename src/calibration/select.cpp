#include "orrery/calibration/select.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "orrery/document/document.hpp"
#include "orrery/document/skim.hpp"

namespace orrery::calibration {
namespace {

using document::Value;

std::string lower(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// "cdna" covers "CDNA 3": an architecture's name up to a space.
bool covers_architecture(const std::string& stated, const std::string& target) {
  const std::string s = lower(stated), t = lower(target);
  return t == s || (t.size() > s.size() && t.starts_with(s) && (t[s.size()] == ' ' || std::isdigit(static_cast<unsigned char>(t[s.size()])) != 0));
}

bool starts_name(const std::string& prefix, const std::string& name) {
  return !prefix.empty() && name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '-');
}

int gpu_level(const Profile& p, const Target& target) {
  if (p.gpu.empty()) {
    if (p.architecture.empty()) return 0;
    return covers_architecture(p.architecture, target.architecture) ? 1 : -1;
  }
  if (p.gpu == target.gpu || std::find(p.same_part.begin(), p.same_part.end(), target.gpu) != p.same_part.end()) return 3;
  return starts_name(p.gpu.substr(0, p.gpu.find('-')), target.gpu) ? 2 : -1;
}

int fabric_level(const Profile& p, const Target& target) {
  if (p.fabric.empty()) return 0;
  if (p.fabric == target.fabric) return 2;
  if (p.fabric == target.fabric_kind) return 1;
  return starts_name(p.fabric, target.fabric) || starts_name(target.fabric, p.fabric) ? 1 : -1;
}

int provenance_rank(const Profile& p) { return p.provenance == "measured" ? 2 : p.provenance == "published" ? 1 : 0; }

Result<Profile> load_one(const Value& source, const std::string& file, const std::string& pointer, const std::string& base_dir) {
  auto loaded = document::load("profile", source, file, pointer, base_dir);
  if (!loaded) return fail(std::move(loaded.error()));
  // A profile object inside the scenario keeps the scenario's pointer; a file of its own starts anew.
  const bool inside = source.is_object();
  return read_profile(loaded->value, inside ? file : loaded->file, inside ? pointer : "");
}

/// Whether a shipped file can match at all, from its own head: most do not, and reading them whole would be most of a short run.
bool may_match(const std::string& name, const Target& target) {
  const auto dir = document::config_dir();
  if (!dir) return true;
  const auto text = document::read_file(*dir + "/calibration/" + name + ".json");
  const auto head = text ? document::skim(*text) : std::nullopt;
  if (!head || head->has("extends")) return true;  // a whole read says what is wrong with it
  Profile p;
  p.gpu = head->text("gpu");
  p.architecture = head->text("architecture");
  p.fabric = head->text("fabric");
  p.same_part = head->texts("same_part");
  return match(p, target) >= 0;
}

Result<std::vector<Profile>> shipped(const Target& target, const std::string& file, const std::string& base_dir) {
  const auto names = document::catalogue("profile");
  if (!names) return fail(names.error());
  std::vector<Profile> all;
  for (const std::string& name : *names) {
    if (!may_match(name, target)) continue;
    auto p = load_one(Value(name), file, "/calibration", base_dir);
    if (!p) return fail(std::move(p.error()));
    all.push_back(std::move(*p));
  }
  return rank(std::move(all), target);
}

}  // namespace

int match(const Profile& profile, const Target& target) {
  const int gpu = gpu_level(profile, target), fabric = fabric_level(profile, target);
  return gpu < 0 || fabric < 0 ? -1 : 4 * gpu + fabric;
}

std::vector<Profile> rank(std::vector<Profile> profiles, const Target& target) {
  std::erase_if(profiles, [&](const Profile& p) { return match(p, target) < 0; });
  const auto key = [&](const Profile& p) { return std::make_tuple(match(p, target), provenance_rank(p), std::string_view(p.name)); };
  std::sort(profiles.begin(), profiles.end(), [&](const Profile& a, const Profile& b) { return key(a) < key(b); });
  return profiles;
}

Result<Selected> select(const Value& member, const Target& target, const std::string& file, const std::string& base_dir) {
  auto defaults = shipped(target, file, base_dir);
  if (!defaults) return fail(std::move(defaults.error()));
  // "none": what the data sheet gives, scaled by architecture; nothing that was measured, here or elsewhere.
  const bool none = member.is_string() && member.as_string() == "none";
  if (none) std::erase_if(*defaults, [](const Profile& p) { return p.provenance != "datasheet"; });
  Selected out;
  for (const Profile& p : *defaults) out.profile = merge(std::move(out.profile), p);

  Diagnostics problems;
  std::vector<Profile> named;
  const auto add = [&](const Value& source, const std::string& pointer) {
    if (none || source.is_null() || (source.is_string() && source.as_string() == "default")) {
      named.insert(named.end(), defaults->begin(), defaults->end());
      return;
    }
    if (auto p = load_one(source, file, pointer, base_dir)) named.push_back(std::move(*p));
    else problems.insert(problems.end(), p.error().begin(), p.error().end());
  };
  if (member.is_array()) {
    for (std::size_t i = 0; i < member.items().size(); ++i) add(member.items()[i], fmt::format("/calibration/{}", i));
  } else {
    add(member, "/calibration");
  }
  if (!problems.empty()) return fail(std::move(problems));
  for (const Profile& p : named) out.profile = merge(std::move(out.profile), p);

  bool gemm_known = false;
  for (const Profile& p : named) {
    const bool general = p.gpu.empty() && p.architecture.empty() && p.fabric.empty() && p.provenance == "datasheet";
    if (!general) out.parts.insert(out.parts.begin(), p);
    gemm_known = gemm_known || (!general && !p.gemm.empty());
  }
  if (none) {
    out.warnings.push_back({file, "/calibration", "no calibration is asked for: datasheet values are used"});
    if (out.parts.empty() && !named.empty()) out.parts.push_back(named.back());
    return out;
  }
  if (!gemm_known) {
    out.warnings.push_back({file, "/calibration",
                            fmt::format("no calibration profile covers gpu \"{}\" (architecture \"{}\"): datasheet values are used; calibrate, or name a profile", target.gpu,
                                        target.architecture)});
    if (out.parts.empty() && !named.empty()) out.parts.push_back(named.back());
  }
  return out;
}

}  // namespace orrery::calibration
