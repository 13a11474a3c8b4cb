#include "config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "document/check.hpp"

namespace orrery::document::hugging_face {
namespace {

constexpr std::int64_t kLargestSize = 1 << 30;

/// Members of every class: PretrainedConfig's own, generation, tokens, initialisation, tables of angles, and what the training recipe states
/// in its own words (types, dropout, losses).
constexpr std::array<std::string_view, 97> kCannotMatter = {
    "architectures", "auto_map", "model_type", "transformers_version", "_name_or_path", "torch_dtype", "dtype", "use_cache", "name_or_path", "license", "_commit_hash",
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "decoder_start_token_id", "is_decoder", "is_encoder_decoder", "tokenizer_class",
    "initializer_range", "initializer_factor", "init_config", "init_device", "init_std", "emb_init_std", "base_init_std", "mup_enabled",
    "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq", "rope_interleave", "rope_pct", "rotary_emb_base",
    "rope_traditional", "original_max_position_embeddings", "max_position_embeddings", "initial_context_length", "max_seq_len", "seq_length", "max_length", "model_max_length",
    "attention_dropout", "hidden_dropout", "embd_pdrop", "resid_pdrop", "attn_pdrop", "embd_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob", "dropout", "layerdrop", "residual_dropout",
    "emb_pdrop", "classifier_dropout", "activation_dropout", "embedding_dropout", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights", "reorder_and_upcast_attn",
    "scale_attn_by_inverse_layer_idx", "masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "pretraining_tp", "gradient_checkpointing", "quantization_config",
    "task_specific_params", "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "n_ctx", "prefix", "id2label", "label2id",
    "router_aux_loss_coef", "output_router_logits", "router_jitter_noise", "aux_loss_alpha", "seq_aux", "loss_type", "keys_to_ignore_at_inference", "attn_implementation", "_attn_implementation", "use_flash_attn",
    "cache_implementation", "verbose"};

}  // namespace

const Value* Config::find(Names names) {
  const Value* first = nullptr;
  for (const std::string_view name : names) {
    const Value* v = value_.find(name);
    if (v == nullptr) continue;
    read_.emplace(name);
    if (first == nullptr || first->is_null()) first = v;
  }
  return first;
}

void Config::expected(std::string_view name, std::string_view what, const Value& v) {
  const Place here = place_.member(name);
  problems_.add(here.file, here.pointer, fmt::format("expected {}, found {}", what, found(v)));
}

std::optional<std::int64_t> Config::maybe_size(Names names, std::int64_t low) {
  const Value* v = find(names);
  if (v == nullptr || v->is_null()) return std::nullopt;
  if (!v->is_int() || v->as_int() < low || v->as_int() > kLargestSize) {
    expected(*names.begin(), fmt::format("an integer from {} to {}", low, kLargestSize), *v);
    return low;
  }
  return v->as_int();
}

std::int64_t Config::size(Names names, std::int64_t otherwise, std::int64_t low) { return maybe_size(names, low).value_or(otherwise); }

std::optional<double> Config::maybe_number(Names names) {
  const Value* v = find(names);
  if (v == nullptr || v->is_null()) return std::nullopt;
  if (!v->is_number()) {
    expected(*names.begin(), "a number", *v);
    return std::nullopt;
  }
  return v->as_double();
}

double Config::number(Names names, double otherwise) { return maybe_number(names).value_or(otherwise); }

bool Config::flag(Names names, bool otherwise) {
  const Value* v = find(names);
  if (v == nullptr || v->is_null()) return otherwise;
  if (!v->is_bool()) {
    expected(*names.begin(), "true or false", *v);
    return otherwise;
  }
  return v->as_bool();
}

std::string Config::text(Names names, std::string_view otherwise) {
  const Value* v = find(names);
  if (v == nullptr || v->is_null()) return std::string(otherwise);
  if (!v->is_string()) {
    expected(*names.begin(), "a string", *v);
    return std::string(otherwise);
  }
  return v->as_string();
}

const Value& Config::raw(Names names) {
  static const Value null;
  const Value* v = find(names);
  return v == nullptr ? null : *v;
}

Config Config::inside(std::string_view name) {
  static const Value empty{Value::Object()};
  const Value* v = find({name});
  if (v == nullptr || v->is_null()) return {empty, place_.member(name), problems_};
  if (!v->is_object()) {
    expected(name, "an object", *v);
    return {empty, place_.member(name), problems_};
  }
  return {*v, place_.member(name), problems_};
}

std::string Config::activation(Names names, std::string_view otherwise) {
  const std::string name = text(names, otherwise);
  if (name == "silu" || name == "swish") return "silu";
  if (name.starts_with("gelu") || name == "quick_gelu") return "gelu";
  if (name == "relu") return "relu";
  if (name == "relu2" || name == "relu_squared") return "relu2";
  refuse(*names.begin(), fmt::format("the activation {} is none of silu, gelu, relu, relu2", found(Value(name))));
  return "silu";
}

void Config::refuse(std::string_view member, std::string text) {
  const Place here = place_.member(member);
  problems_.add(here.file, here.pointer, std::move(text));
}

void Config::expect_off(std::string_view name, std::string_view what) {
  const Value* v = find({name});
  if (v == nullptr || v->is_null()) return;
  const bool off = (v->is_bool() && !v->as_bool()) || (v->is_number() && v->as_double() == 0) || (v->is_array() && v->items().empty());
  if (!off) refuse(name, std::string(what));
}

void Config::warn(std::string_view member, std::string text) {
  const Place here = place_.member(member);
  problems_.warn(here.file, here.pointer, std::move(text));
}

void Config::ignore(Names names) {
  for (const std::string_view name : names) read_.emplace(name);
}

void Config::warn_unread() {
  for (const auto& [name, value] : value_.members()) {
    if (read_.contains(name) || std::find(kCannotMatter.begin(), kCannotMatter.end(), name) != kCannotMatter.end()) continue;
    warn(name, "not known to change the model, and not read");
  }
}

}  // namespace orrery::document::hugging_face
