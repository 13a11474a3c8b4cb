// Every member of the scenario's description, through model, node, GPU, fabric and stack, is set once to something else than its default:
// it must be accepted and stand in the resolved scenario, or be refused as "not built yet".
#include <algorithm>
#include <set>

#include "catch.h"
#include "document/description.hpp"
#include "orrery/document/document.hpp"
#include "scenarios.hpp"

using namespace orrery;
using document::Member;
using document::Type;
using document::Value;
using Kind = document::Type::Kind;

namespace {

bool is_default(const Value& v, const Value& fallback) {
  return v == fallback || (v.is_number() && fallback.is_number() && v.as_double() == fallback.as_double());
}

/// Values that the description accepts, each form once.
std::vector<Value> samples(const Type& type, const Value& fallback);

Value object_of(const std::vector<Member>& members) {
  Value v{Value::Object()};
  for (const Member& m : members) {
    if (m.type.kind == Kind::kReference && m.is_required) v.set(m.name, object_of(document::document_kind(m.type.reference).type().members));
    if (m.name == "extends" || !m.type.built || m.type.kind == Kind::kReference) continue;
    const auto all = samples(m.type, m.fallback);
    if (!all.empty()) v.set(m.name, m.built_values.empty() ? all.front() : m.built_values.front());
  }
  return v;
}

std::vector<Value> samples(const Type& type, const Value& fallback) {
  std::vector<Value> all;
  switch (type.kind) {
    case Kind::kBool:
      all = {Value(false)};
      if (!type.just_false) all.emplace_back(true);
      break;
    case Kind::kInteger: all = {Value(static_cast<std::int64_t>(type.low)), Value(static_cast<std::int64_t>(std::min(type.low + 1, type.high)))}; break;
    case Kind::kNumber: all = {Value((type.low + std::min(type.high, type.low + 4)) / 2), Value(type.high)}; break;
    case Kind::kString: all = {Value("some text")}; break;
    case Kind::kChoice:
      for (const document::Choice& c : type.choices) all.emplace_back(c.name);
      break;
    case Kind::kArray: {
      const auto items = samples(type.parts[0], Value());
      const std::size_t length = std::max<std::size_t>(type.shortest, 1);
      Value::Array list;
      for (std::size_t i = 0; i < length; ++i) list.push_back(items[type.all_distinct ? items.size() - 1 - i : 0]);
      all = {Value(list)};
      if (type.parts[0].kind == Kind::kTagged) {
        for (const Value& item : items) all.push_back(Value(Value::Array{item}));
      }
      break;
    }
    case Kind::kObject:
      if (type.just_one) {
        for (const Member& m : type.members) all.push_back(Value(Value::Object{{m.name, samples(m.type, Value()).front()}}));
      } else {
        all = {object_of(type.members)};
      }
      break;
    case Kind::kTagged:
      for (const document::Variant& v : type.variants) {
        Value form = object_of(v.members);
        form.set(type.tag, v.name);
        all.push_back(std::move(form));
      }
      break;
    case Kind::kEither:
      for (const Type& part : type.parts) {
        for (Value& v : samples(part, fallback)) all.push_back(std::move(v));
      }
      break;
    case Kind::kAny: all = {Value("anything")}; break;
    case Kind::kMap:
    case Kind::kReference: break;
  }
  std::erase_if(all, [&](const Value& v) { return is_default(v, fallback); });
  return all;
}

struct Row {
  std::string pointer;
  const Member* member;
};

/// Members of objects, through references; what stands in arrays and tagged objects is sampled whole.
void rows(const std::vector<Member>& members, const std::string& pointer, std::vector<Row>& out) {
  for (const Member& m : members) {
    if (m.name == "schema" || m.name == "extends") continue;
    const std::string here = pointer + "/" + m.name;
    const Type& type = m.type.kind == Kind::kReference ? document::document_kind(m.type.reference).type() : m.type;
    if (m.type.kind == Kind::kReference && type.kind == Kind::kTagged) {
      rows(type.variants.front().members, here, out);  // the test's model is of the first family
    } else if (type.kind == Kind::kObject && !type.just_one && type.built) {
      rows(type.members, here, out);
    } else {
      out.push_back({here, &m});
    }
  }
}

/// Base values that other members must have for a sample to make sense.
const char* const kFabric = R"({"schema": "orrery/fabric/1", "kind": "infiniband", "link_gbit_per_s": 100, "leaf_ports": 32, "latency_same_leaf_us": 2, "latency_per_tier_us": 0.5})";

}  // namespace

TEST_CASE("every member of a scenario can be set, and stands in the resolved scenario or is not built yet") {
  std::vector<Row> all;
  rows(document::scenario_type().members, "", all);
  CHECK(all.size() > 180);
  std::set<std::string> unbuilt;
  for (const Row& row : all) {
    const auto values = samples(row.member->type, row.member->fallback);
    CAPTURE(row.pointer);
    CHECK((!values.empty() || row.pointer == "/model/family" || row.pointer == "/training/loss/kind"));  // which have one value so far
    for (const Value& v : values) {
      const std::string text = document::dump(v, -1);
      CAPTURE(text);
      std::vector<document::Override> overrides = {{"cluster.fabric", kFabric}};
      if (row.pointer.starts_with("/model/moe/")) overrides.push_back({"model.moe", R"({"experts": 8, "experts_per_token": 2, "expert_ffn": 1024})"});
      if (row.pointer.starts_with("/model/mla/")) overrides.push_back({"model.mla", R"({"kv_lora_rank": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64})"});
      if (row.pointer.starts_with("/training/adapter/")) overrides.push_back({"training.adapter", R"({"rank": 8})"});
      if (row.pointer.starts_with("/cluster/fabric/dragonfly/")) overrides.push_back({"cluster.fabric.dragonfly", R"({"groups": 2, "routers_per_group": 2, "hosts_per_router": 2})"});
      if (row.pointer.starts_with("/cluster/fabric/torus/")) overrides.push_back({"cluster.fabric.torus", R"({"shape": [2, 2]})"});
      if (row.pointer.starts_with("/cluster/fabric/graph/")) overrides.push_back({"cluster.fabric.graph", R"({"switches": 2, "links": [[0, 1, 1]], "hosts": [[0], [1]]})"});
      overrides.push_back({row.pointer, text});
      const auto job = document::load_scenario_text(test::scenario(), "job.json", "", overrides);
      if (job) {
        const Value* resolved = job->value.resolve(row.pointer);
        REQUIRE(resolved != nullptr);
        const bool same = is_default(*resolved, v) || v.is_object() || v.is_array();  // nested defaults are filled in
        const bool sp_alone = row.pointer == "/parallelism/sp";                       // false where tp is 1
        CHECK((same || sp_alone));
      } else {
        for (const Diagnostic& d : job.error()) {
          CAPTURE(to_string(d));
          CHECK(d.text.find("not built yet") != std::string::npos);
        }
        unbuilt.insert(row.pointer);
      }
    }
  }
  const std::set<std::string> wholly_unbuilt = {
      "/cluster/nccl/tuner", "/jobs"};
  for (const std::string& pointer : wholly_unbuilt) {
    CAPTURE(pointer);
    CHECK(unbuilt.contains(pointer));
  }
}

TEST_CASE("every member of every family of models can be set, and stands in the resolved scenario") {
  // A shipped model of each family to start from.
  const std::vector<std::pair<std::string, std::string>> shipped = {{"encoder", "bert-base"}, {"encoder_decoder", "t5-base"}, {"vision_transformer", "vit-b-16"}, {"diffusion_transformer", "dit-xl-2"},
                                                                    {"convolutional", "resnet-50"}, {"mlp", "mlp-mnist"}, {"recommendation", "dlrm"}, {"state_space", "mamba2-130m"}, {"multimodal", "llava-1.5-7b"}};
  const auto& families = document::document_kind("model").type().variants;
  CHECK(families.size() == shipped.size() + 1);
  for (const auto& [family, model] : shipped) {
    const auto variant = std::find_if(families.begin(), families.end(), [&, &name = family](const document::Variant& v) { return v.name == name; });
    REQUIRE(variant != families.end());
    for (const Member& m : variant->members) {
      if (m.name == "schema" || m.name == "extends" || m.name == "family") continue;
      for (const Value& v : samples(m.type, m.fallback)) {
        const std::string text = document::dump(v, -1);
        CAPTURE(model, m.name, text);
        const std::vector<document::Override> overrides = {{"model", model}, {"/model/" + m.name, text}};
        const auto job = document::load_scenario_text(test::scenario(), "job.json", "", overrides);
        REQUIRE(job);
        const Value* resolved = job->value.resolve("/model/" + m.name);
        REQUIRE(resolved != nullptr);
        CHECK((is_default(*resolved, v) || v.is_object() || v.is_array()));
      }
    }
  }
}
