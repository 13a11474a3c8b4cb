#include "defaults.hpp"

#include <algorithm>

#include "orrery/base/checked.hpp"
#include "problems.hpp"

namespace orrery::document {
namespace {

using Kind = Type::Kind;

bool has_required(const Type& type) {
  return std::any_of(type.members.begin(), type.members.end(), [](const Member& m) { return m.is_required; });
}

void fill_members(Value& value, const std::vector<Member>& members, const std::string& tag, const std::string& pointer, const Value& stack_defaults, DefaultsFrom& from) {
  Value::Object ordered;
  if (!tag.empty() && find_member(members, tag) == nullptr) ordered.emplace_back(tag, value.at(tag));
  for (const Member& member : members) {
    if (member.name == "extends") continue;
    const std::string here = Place{"", pointer}.member(member.name).pointer;
    Value v = value.at(member.name);
    if (v.is_null() && !member.stack_default.empty()) {
      if (const Value* stated = stack_defaults.resolve(member.stack_default); stated != nullptr && !stated->is_null()) {
        v = *stated;
        from.emplace_back(here, "stack");
      }
    }
    if (v.is_null() && !member.fallback.is_null()) {
      v = member.fallback;
      from.emplace_back(here, "schema");
    }
    if (v.is_null() && member.type.kind == Kind::kObject && member.type.built && !has_required(member.type)) v = Value(Value::Object());
    if (!v.is_null()) fill_defaults(v, member.type, here, stack_defaults, from);
    ordered.emplace_back(member.name, std::move(v));
  }
  value = Value(std::move(ordered));
}

void derive(Value& object, const char* name, Value v, const std::string& pointer, DefaultsFrom& from) {
  object.set(name, std::move(v));
  const std::string here = pointer + '/' + name;
  std::erase_if(from, [&](const auto& entry) { return entry.first == here; });
  from.emplace_back(here, "derived");
}

/// What a precision computes in and stores parameters in.
const char* storage_dtype(const std::string& precision) {
  if (precision == "fp32" || precision == "tf32") return "fp32";
  return precision == "fp16" ? "fp16" : "bf16";
}

void derive_dtypes(Value& training, DefaultsFrom& from) {
  const std::string precision = training.at("precision").as_string();
  for (const char* name : {"param_dtype", "grad_dtype", "grad_reduce_dtype"}) {
    Value v = training.at(name);
    if (v.is_object()) v = v.at(precision).is_null() ? Value("compute") : v.at(precision);  // a stack that tells precisions apart
    if (v.is_null()) v = Value("compute");
    const bool computed = v == Value("compute");
    if (computed) v = Value(storage_dtype(precision));
    if (v == training.at(name)) continue;
    if (training.at(name).is_null()) {
      derive(training, name, v, "/training", from);
    } else {
      training.set(name, v);  // still the stack's choice, now for this precision
    }
  }
  const bool stated = std::none_of(from.begin(), from.end(), [](const auto& entry) { return entry.first == "/training/master_weights"; });
  if (!stated && training.at("param_dtype") == Value("fp32") && training.at("master_weights").as_bool()) derive(training, "master_weights", false, "/training", from);
}

void derive_sizes(Value& scenario, DefaultsFrom& from) {
  Value& cluster = *scenario.find("cluster");
  Value& parallelism = *scenario.find("parallelism");
  const auto size = [&](const char* name) { return parallelism.at(name).as_int(); };
  if (cluster.at("gpus_per_node").is_null()) derive(cluster, "gpus_per_node", cluster.at("node").at("gpus"), "/cluster", from);
  if (cluster.at("gpus").is_null()) {
    if (const auto gpus = checked_mul(cluster.at("nodes").as_int(), cluster.at("gpus_per_node").as_int())) derive(cluster, "gpus", *gpus, "/cluster", from);
  }
  if (!parallelism.at("dp").is_null() || cluster.at("gpus").is_null()) return;
  std::optional<std::int64_t> replica = checked_mul(size("tp"), size("cp"));
  if (replica) replica = checked_mul(*replica, size("pp"));
  const std::int64_t gpus = cluster.at("gpus").as_int();
  if (replica && gpus % *replica == 0 && gpus >= *replica) derive(parallelism, "dp", gpus / *replica, "/parallelism", from);
}

}  // namespace

void fill_defaults(Value& value, const Type& type, const std::string& pointer, const Value& stack_defaults, DefaultsFrom& from) {
  switch (type.kind) {
    case Kind::kObject:
      if (type.just_one) {  // one of several forms: the others are not absent, they are not chosen
        std::erase_if(value.members(), [](const auto& m) { return m.second.is_null(); });
        for (auto& [name, inner] : value.members()) {
          if (const Member* m = find_member(type.members, name)) fill_defaults(inner, m->type, Place{"", pointer}.member(name).pointer, stack_defaults, from);
        }
        return;
      }
      return fill_members(value, type.members, {}, pointer, stack_defaults, from);
    case Kind::kTagged: {
      const auto variant = std::find_if(type.variants.begin(), type.variants.end(), [&](const Variant& v) { return v.name == type.tag_default ? value.at(type.tag).is_null() || value.at(type.tag) == Value(v.name) : Value(v.name) == value.at(type.tag); });
      if (variant != type.variants.end()) fill_members(value, variant->members, type.tag, pointer, stack_defaults, from);
      return;
    }
    case Kind::kArray:
      for (std::size_t i = 0; i < value.items().size(); ++i) fill_defaults(value.items()[i], type.parts[0], Place{"", pointer}.item(i).pointer, stack_defaults, from);
      return;
    case Kind::kMap:
      for (auto& [name, inner] : value.members()) fill_defaults(inner, type.parts[0], Place{"", pointer}.member(name).pointer, stack_defaults, from);
      return;
    case Kind::kEither:
      for (const Type& part : type.parts) {
        const bool object = part.kind == Kind::kObject || part.kind == Kind::kTagged;
        if ((object && value.is_object()) || (part.kind == Kind::kArray && value.is_array())) return fill_defaults(value, part, pointer, stack_defaults, from);
      }
      return;
    case Kind::kReference:
      if (value.is_object()) fill_defaults(value, document_kind(type.reference).type(), pointer, stack_defaults, from);
      return;
    default: return;
  }
}

void derive_model(Value& model, const std::string& pointer, DefaultsFrom& from) {
  if (!model.at("heads").is_int() || !model.at("hidden").is_int()) return;  // a family without attention
  const std::int64_t heads = model.at("heads").as_int(), hidden = model.at("hidden").as_int();
  if (model.find("kv_heads") != nullptr && model.at("kv_heads").is_null()) derive(model, "kv_heads", heads, pointer, from);
  if (model.find("head_dim") != nullptr && model.at("head_dim").is_null() && hidden % heads == 0) derive(model, "head_dim", hidden / heads, pointer, from);
}

/// Families that attend both ways: the mask of text generation is no default of theirs.
void derive_mask(Value& scenario, DefaultsFrom& from) {
  const Value& family = scenario.at("model").at("family");
  const bool defaulted = std::any_of(from.begin(), from.end(), [](const auto& entry) { return entry.first == "/training/attention_mask"; });
  for (const char* both_ways : {"encoder", "vision_transformer", "diffusion_transformer"}) {
    if (defaulted && family == Value(both_ways)) derive(*scenario.find("training"), "attention_mask", "full", "/training", from);
  }
}

void derive_scenario(Value& scenario, DefaultsFrom& from) {
  derive_mask(scenario, from);
  derive_model(*scenario.find("model"), "/model", from);
  derive_dtypes(*scenario.find("training"), from);
  Value& parallelism = *scenario.find("parallelism");
  if (parallelism.at("tp").as_int() == 1 && parallelism.at("sp").as_bool()) derive(parallelism, "sp", false, "/parallelism", from);
  if (parallelism.at("schedule").is_null()) derive(parallelism, "schedule", parallelism.at("vp").as_int() > 1 ? "interleaved_1f1b" : "1f1b", "/parallelism", from);
  if (const Value& way = parallelism.at("p2p"); way.is_object()) {  // a stack that tells schedules apart
    const Value& schedule = parallelism.at("schedule");
    const Value here = schedule.is_string() ? way.at(schedule.as_string()) : Value();  // order lists from a file: as any schedule that the stack does not name
    parallelism.set("p2p", here.is_null() ? Value("overlapped") : Value(here));
  }
  derive_sizes(scenario, from);
}

}  // namespace orrery::document
