// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The configuration of Qwen3.5's dense text models. llama.cpp hard-codes some properties: attention
// has an output gate, projections have no bias, and keys and values of a head of linear attention
// have the same size. It normalises queries and keys of linear attention by max(norm, eps), with
// the eps of the model's norms. transformers uses sqrt(norm^2 + 1e-6) for any eps in the file. With
// an eps of 0.01, log-probabilities of a small model differed by up to 4.6.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// transformers' defaults.
constexpr int64_t kInterval = 4;
constexpr double kEps = 1e-6;
constexpr char kEpsReason[] =
    ", with which llama.cpp and transformers compute the same: llama.cpp also uses it for queries "
    "and keys of linear attention, where transformers has 1e-06";
// No count of heads, and no size of a head, is larger.
constexpr int64_t kMostHeads = int64_t{1} << 24;
constexpr char kFullInterval[] = "full_attention_interval";
constexpr char kLayerTypes[] = "layer_types";
constexpr char kFull[] = "full_attention";
constexpr char kSections[] = "rope.dimension_sections";
constexpr char kHfSections[] = "mrope_section";
// No section has as many pairs.
constexpr int64_t kMostPairs = 4096;

Json LayerTypes(int64_t blocks, int64_t interval) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < blocks; ++layer) {
    types.push_back((layer + 1) % interval == 0 ? kFull : "linear_attention");
  }
  return types;
}

// The list of layers has precedence, and transformers writes it alone.
absl::StatusOr<int64_t> FullInterval(const HfConfig& config) {
  if (config.Has(kLayerTypes) && config.json().at(kLayerTypes).is_array()) {
    const Json& types = config.json().at(kLayerTypes);
    const auto first = std::find(types.begin(), types.end(), Json(kFull));
    if (first != types.end()) return first - types.begin() + 1;
  }
  return config.GetIntOr(kFullInterval, kInterval);
}

// Checks `sections`, the numbers of pairs that rotate by time, height and width in images. On a
// text, transformers rotates all `rotated` / 2 pairs of a head by the token's position with any
// sections. llama.cpp gives a pair outside its axis's section the position of a fourth axis, which
// is 0 in text. Empty if llama.cpp also rotates all pairs; otherwise the sections that it expects.
std::string ProblemOfSections(const std::vector<int64_t>& sections, int64_t rotated,
                              int64_t head_dim) {
  const int64_t pairs = rotated / 2;
  const auto is_size = [](int64_t size) { return size >= 0 && size < kMostPairs; };
  bool good = sections.size() >= 3 && sections.size() <= 4 &&
              std::all_of(sections.begin(), sections.end(), is_size);
  if (good) {
    const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
    good = sum >= 1 && sum <= head_dim;
    for (int64_t pair = 0; good && pair < std::min(pairs, sum); ++pair) {
      good = pair < 3 * sections[static_cast<size_t>(pair % 3)];
    }
  }
  if (good) return "";
  return absl::StrCat("[", (pairs + 2) / 3, ", ", (pairs + 1) / 3, ", ", pairs / 3,
                      "], or other sizes with which llama.cpp rotates all ", pairs,
                      " pairs of a text, with a sum of at most ", head_dim);
}

void SetSections(const HfConfig& config, const HfRope& rope, int64_t rotated, int64_t head_dim,
                 MetadataBuilder& out) {
  const std::string key =
      absl::StrCat(rope.where.empty() ? "rope_parameters" : rope.where, ".", kHfSections);
  Json value = {11, 11, 10};  // transformers' default
  if (config.Has(key)) value = config.json().at(rope.where).at(kHfSections);
  std::vector<int64_t> sections;
  if (value.is_array() && value.size() == 3) {
    for (const Json& size : value) {
      sections.push_back(size.is_number_integer() ? size.get<int64_t>() : -1);
    }
  }
  const std::string expected = ProblemOfSections(sections, rotated, head_dim);
  if (!expected.empty()) {
    out.Keep(Unimplemented(config.where(), ": key \"", key, "\" is ", value.dump(), ", expected ",
                           expected));
    return;
  }
  std::vector<int32_t> with_fourth(sections.begin(), sections.end());
  with_fourth.push_back(0);
  out.Integers(kSections, std::move(with_fourth));
}

void SetRope(const HfConfig& config, const absl::StatusOr<int64_t>& head_dim,
             MetadataBuilder& out) {
  const absl::StatusOr<HfRope> rope = HfRopeOf(config);
  if (!out.Keep(rope.status()) || !out.Keep(head_dim.status())) return;
  if (!(rope->rotated_share > 0 && rope->rotated_share <= 1)) {
    out.Keep(InvalidArgument(config.where(), ": key \"partial_rotary_factor\" is ",
                             rope->rotated_share, ", expected more than 0 and at most 1"));
    return;
  }
  const auto rotated = static_cast<int64_t>(static_cast<double>(*head_dim) * rope->rotated_share);
  out.Count("rope.dimension_count", rotated);
  out.Float("rope.freq_base", rope->theta);
  SetSections(config, *rope, rotated, *head_dim, out);
  if (rope->type != "default") {
    out.Require(absl::StrCat(rope->where, ".rope_type"), absl::StatusOr<std::string>(rope->type),
                std::string("default"));
  }
}

// Refuses a list that no interval expresses.
void CheckLayerTypes(const HfConfig& config, int64_t blocks, int64_t interval,
                     MetadataBuilder& out) {
  const Json& types = config.json().at(kLayerTypes);
  const Json expected = LayerTypes(blocks, interval);
  if (!types.is_array() || types.size() != expected.size()) {
    out.Keep(InvalidArgument(config.where(), ": key \"", kLayerTypes, "\" is not a list of ",
                             blocks, " layers, as \"num_hidden_layers\" says"));
    return;
  }
  for (size_t layer = 0; layer < types.size(); ++layer) {
    out.Require<Json>(absl::StrCat(kLayerTypes, "[", layer, "]"), types[layer], expected[layer]);
  }
}

// llama.cpp follows this list rather than the interval, and its MTP blocks are not recurrent.
void CheckRecurrentLayers(const GgufMetadata& metadata, const GgufBlockCounts& counts,
                          ConfigBuilder& out) {
  const char* const key = "attention.recurrent_layers";
  const GgufValue* const value = metadata.Find(absl::StrCat(kQwen35, ".", key));
  if (value == nullptr) return;
  const auto* const array = std::get_if<GgufArray>(value);
  const auto* const recurrent =
      array == nullptr ? nullptr : std::get_if<std::vector<bool>>(&array->items);
  if (recurrent == nullptr || static_cast<int64_t>(recurrent->size()) != counts.with_mtp) {
    out.Refuse(key, absl::StrCat("of type ", GgufTypeName(*value), " or of another length"),
               absl::StrCat("a bool for each of the ", counts.with_mtp, " blocks"));
    return;
  }
  for (int64_t block = 0; block < counts.with_mtp; ++block) {
    const bool expected = block < counts.blocks && (block + 1) % counts.full_interval != 0;
    if ((*recurrent)[static_cast<size_t>(block)] == expected) continue;
    out.Refuse(key, absl::StrCat(expected ? "false" : "true", " for block ", block),
               absl::StrCat(expected ? "true" : "false", ", as ", kFullInterval, " ",
                            counts.full_interval, " says"));
  }
}

}  // namespace

absl::StatusOr<GgufMetadata> Qwen35Metadata(const HfConfig& config) {
  MetadataBuilder out(config, kQwen35);
  ZEROTH_ASSIGN_OR_RETURN(const int64_t blocks, config.GetInt("num_hidden_layers"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t interval, FullInterval(config));
  const absl::StatusOr<int64_t> head_dim = config.GetIntOr("head_dim", 256);
  const absl::StatusOr<int64_t> key_heads = config.GetIntOr("linear_num_key_heads", 16);
  ZEROTH_ASSIGN_OR_RETURN(const int64_t value_heads, config.GetIntOr("linear_num_value_heads", 32));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t key_dim, config.GetIntOr("linear_key_head_dim", 128));
  out.Count("context_length", config.GetIntOr("max_position_embeddings", 32768));
  out.Count("embedding_length", config.GetInt("hidden_size"));
  out.Count("block_count", blocks);
  out.Count("feed_forward_length", config.GetInt("intermediate_size"));
  out.Count("attention.head_count", config.GetInt("num_attention_heads"));
  out.Count("attention.head_count_kv", config.GetIntOr("num_key_value_heads", 4));
  out.Count("attention.key_length", head_dim);
  out.Count("attention.value_length", head_dim);
  out.Count("vocab_size", config.GetInt("vocab_size"));
  out.Count(kFullInterval, interval);
  out.Count("ssm.conv_kernel", config.GetIntOr("linear_conv_kernel_dim", 4));
  out.Count("ssm.state_size", key_dim);
  out.Count("ssm.group_count", key_heads);
  out.Count("ssm.time_step_rank", value_heads);
  out.Require("linear_value_head_dim", config.GetIntOr("linear_value_head_dim", 128), key_dim);
  if (key_dim > 0 && key_dim < kMostHeads && value_heads < kMostHeads) {
    out.Count("ssm.inner_size", key_dim * value_heads);
  }
  const absl::StatusOr<double> eps = config.GetDoubleOr("rms_norm_eps", kEps);
  out.Float("attention.layer_norm_rms_epsilon", eps);
  if (eps.ok() && *eps != kEps) {
    out.Keep(Unimplemented(config.where(), ": key \"rms_norm_eps\" is ", *eps, ", expected 1e-06",
                           kEpsReason));
  }
  out.Require("hidden_act", config.GetStringOr("hidden_act", "silu"), std::string("silu"));
  out.Require("attention_bias", config.GetBoolOr("attention_bias", false), false);
  out.Require("attn_output_gate", config.GetBoolOr("attn_output_gate", true), true);
  if (blocks > 0 && blocks < kMostBlocks && interval > 0 && config.Has(kLayerTypes)) {
    CheckLayerTypes(config, blocks, interval, out);
  }
  SetRope(config, head_dim, out);
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> Qwen35Config(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, kQwen35, facts);
  ZEROTH_ASSIGN_OR_RETURN(const GgufBlockCounts counts, GgufBlockCountsOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(const GgufLinearDivision linear, Qwen35Division(metadata));
  const int64_t head_dim = out.Int("attention.key_length");
  const int64_t rotated = out.IntOr("rope.dimension_count", head_dim);
  const int64_t inner = out.Int("ssm.inner_size");
  if (inner != linear.value_heads * linear.key_dim) {
    out.Refuse("ssm.inner_size", absl::StrCat(inner),
               absl::StrCat(linear.value_heads * linear.key_dim,
                            ", ssm.time_step_rank times ssm.state_size"));
  }
  if (rotated < 1 || rotated > head_dim) {
    out.Refuse("rope.dimension_count", absl::StrCat(rotated),
               absl::StrCat("1 to ", head_dim, ", the whole of a head"));
  }
  const int64_t value_length = out.IntOr("attention.value_length", head_dim);
  if (value_length != head_dim) {
    out.Refuse("attention.value_length", absl::StrCat(value_length),
               absl::StrCat(head_dim, ", as attention.key_length"));
  }
  CheckRecurrentLayers(metadata, counts, out);
  out.RefuseScaledPositions();
  out["model_type"] = "qwen3_5_text";
  out["architectures"] = {"Qwen3_5ForCausalLM"};
  out["hidden_act"] = "silu";
  out["intermediate_size"] = out.Int("feed_forward_length");
  out["head_dim"] = head_dim;
  out.SetSizes();
  if (const double eps = out.Double("attention.layer_norm_rms_epsilon"); eps != kEps) {
    out.Refuse("attention.layer_norm_rms_epsilon", absl::StrCat(eps),
               absl::StrCat("1e-06", kEpsReason));
  }
  out["num_hidden_layers"] = counts.blocks;
  out[kFullInterval] = counts.full_interval;
  if (counts.blocks > 0 && counts.blocks < kMostBlocks) {
    out[kLayerTypes] = LayerTypes(counts.blocks, counts.full_interval);
  }
  out["linear_conv_kernel_dim"] = out.Int("ssm.conv_kernel");
  out["linear_num_key_heads"] = linear.key_heads;
  out["linear_num_value_heads"] = linear.value_heads;
  out["linear_key_head_dim"] = linear.key_dim;
  out["linear_value_head_dim"] = linear.key_dim;
  out["attention_bias"] = false;
  out["attn_output_gate"] = true;
  std::vector<int64_t> sections = out.Integers(kSections);
  const std::string expected = ProblemOfSections(sections, rotated, head_dim);
  if (!expected.empty()) {
    out.Refuse(kSections, absl::StrCat("[", absl::StrJoin(sections, ", "), "]"), expected);
  }
  sections.resize(3);  // transformers has no fourth, which rotates no pair of a text
  out["rope_parameters"] = {
      {"rope_type", "default"},
      {"rope_theta", out.DoubleOr("rope.freq_base", 10000.0)},
      {"partial_rotary_factor",
       static_cast<double>(rotated) / static_cast<double>(std::max<int64_t>(head_dim, 1))},
      {"mrope_interleaved", true},
      {"mrope_section", sections}};
  return std::move(out).Build();
}

absl::StatusOr<GgufLinearDivision> Qwen35Division(const GgufMetadata& metadata) {
  const auto key = [](absl::string_view name) { return absl::StrCat(kQwen35, ".ssm.", name); };
  GgufLinearDivision division;
  ZEROTH_ASSIGN_OR_RETURN(division.key_heads, metadata.GetInt(key("group_count")));
  ZEROTH_ASSIGN_OR_RETURN(division.value_heads, metadata.GetInt(key("time_step_rank")));
  ZEROTH_ASSIGN_OR_RETURN(division.key_dim, metadata.GetInt(key("state_size")));
  for (const auto& [name, size] : {std::pair("group_count", division.key_heads),
                                   std::pair("time_step_rank", division.value_heads),
                                   std::pair("state_size", division.key_dim)}) {
    if (size >= 1 && size <= kMostHeads) continue;
    return InvalidArgument(metadata.where(), ": key \"", key(name), "\" is ", size,
                           ", expected 1 to 2^24");
  }
  if (division.value_heads % division.key_heads != 0) {
    return InvalidArgument(metadata.where(), ": ", division.value_heads,
                           " value heads of linear attention, expected a multiple of the ",
                           division.key_heads, " key heads");
  }
  return division;
}

}  // namespace zeroth
