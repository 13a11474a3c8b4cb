// The report is the contract: what is written passes the schema that is shipped for it, folded or not, fitting or not.
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "road.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

std::string complaints(const document::Value& report) {
  const auto text = document::schema("report");
  REQUIRE(text.has_value());
  valijson::Schema schema;
  valijson::SchemaParser parser;
  const nlohmann::json description = nlohmann::json::parse(*text);
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(description), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  const nlohmann::json document = nlohmann::json::parse(document::dump(report));
  validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results);
  std::string all;
  for (valijson::ValidationResults::Error e; results.popError(e);) {
    for (const std::string& part : e.context) all += part;
    all += ": " + e.description + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("a report passes the schema that is shipped for reports") {
  CHECK(complaints(report_of(predict(shipped("llama-3.1-70b-64gpu")))).empty());
  CHECK(complaints(report_of(predict(kSmallJob, {{"training.micro_batch", "32"}, {"training.global_batch", "256"}, {"training.sequence_length", "65536"}, {"training.attention", "math"}}))).empty());
  CHECK(complaints(report_of(predict(kSmallJob, {{"cluster.node", "box-8x-rtx4090"}, {"cluster.fabric", "null"}, {"parallelism.tp", "8"}}, false))).empty());
}

TEST_CASE("a report without one of its members does not pass") {
  document::Value report = report_of(predict(kSmallJob));
  report.erase("breakdown");
  CHECK_FALSE(complaints(report).empty());
}

TEST_CASE("a report has every member of the contract") {
  const document::Value report = report_of(predict(kSmallJob));
  for (const char* pointer :
       {"/schema", "/orrery_version", "/scenario/parallelism/dp", "/defaults_from", "/calibration", "/model/parameters", "/model/parameters_without_embedding",
        "/model/active_parameters", "/model/flops_per_token/exact", "/model/flops_per_token/megatron", "/model/flops_per_token/megatron_legacy",
        "/model/flops_per_token/palm", "/model/flops_per_token/six_n", "/model/flops_per_token/torchtitan", "/model/flops_per_token/narayanan", "/step/time_s",
        "/step/low_s", "/step/high_s", "/step/coverage", "/step/band_basis", "/throughput/tokens_per_s", "/throughput/tokens_per_s_per_gpu",
        "/throughput/samples_per_s", "/throughput/model_tflops_per_gpu", "/throughput/hardware_tflops_per_gpu", "/throughput/mfu", "/throughput/hfu",
        "/throughput/flops_convention", "/throughput/peak_tflops", "/throughput/peak_dtype", "/throughput/pipeline_efficiency", "/breakdown/compute_s",
        "/breakdown/optimizer_s", "/breakdown/exposed_comm_s/tp", "/breakdown/exposed_comm_s/cp", "/breakdown/exposed_comm_s/ep", "/breakdown/exposed_comm_s/pp",
        "/breakdown/exposed_comm_s/dp", "/breakdown/bubble_s", "/breakdown/other_s", "/memory/fits", "/memory/capacity_gib", "/memory/peak_gib",
        "/memory/peak_allocated_gib", "/memory/peak_reserved_gib", "/memory/worst_rank", "/memory/host_gib", "/memory/by_kind_gib/parameters",
        "/memory/by_kind_gib/gradients", "/memory/by_kind_gib/optimizer", "/memory/by_kind_gib/activations", "/memory/by_kind_gib/buffers",
        "/memory/by_kind_gib/framework", "/origins", "/engine/events", "/engine/rank_classes", "/engine/ranks", "/stages/0/peak_gib", "/collectives", "/links",
        "/energy/step_j", "/energy/gpu_mean_w", "/energy/j_per_token", "/price/currency", "/price/per_gpu_hour", "/price/per_million_tokens",
        "/goodput/availability", "/goodput/mttf_h", "/goodput/checkpoint_interval_s", "/goodput/effective_tokens_per_s", "/warnings"}) {
    INFO(pointer);
    CHECK(report.resolve(pointer) != nullptr);
  }
}
