// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Build metadata from a config.json, and a config.json from metadata, for the sources that map a
// family's keys.

#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

// A list of the layers may have this many.
inline constexpr int64_t kMostBlocks = 10000;

// Fills metadata under "<architecture>.". Remembers the first error, so that a mapping reads as a
// list.
class MetadataBuilder {
 public:
  MetadataBuilder(const HfConfig& config, absl::string_view architecture)
      : config_(config), prefix_(absl::StrCat(architecture, ".")) {
    metadata_.SetString("general.architecture", architecture);
  }

  void Count(absl::string_view key, const absl::StatusOr<int64_t>& value) {
    if (!Keep(value.status())) return;
    if (*value < 1 || *value > std::numeric_limits<uint32_t>::max()) {
      Keep(InvalidArgument(config_.where(), ": ", prefix_, key, " would be ", *value,
                           ", expected 1 to 2^32 - 1"));
      return;
    }
    metadata_.SetUint32(absl::StrCat(prefix_, key), static_cast<uint32_t>(*value));
  }

  void Float(absl::string_view key, const absl::StatusOr<double>& value) {
    if (Keep(value.status()))
      metadata_.SetFloat(absl::StrCat(prefix_, key), static_cast<float>(*value));
  }

  void Integers(absl::string_view key, std::vector<int32_t> values) {
    metadata_.Set(absl::StrCat(prefix_, key), GgufArray{std::move(values)});
  }

  void Text(absl::string_view key, absl::string_view value) {
    metadata_.SetString(absl::StrCat(prefix_, key), value);
  }

  // Refuses a config whose `key` is not what llama.cpp computes.
  template <typename T>
  void Require(absl::string_view key, const absl::StatusOr<T>& value, const T& expected) {
    if (!Keep(value.status()) || *value == expected) return;
    Keep(Unimplemented(config_.where(), ": key \"", key, "\" is ", nlohmann::json(*value).dump(),
                       ", expected ", nlohmann::json(expected).dump(),
                       ", which is what llama.cpp computes"));
  }

  // Keeps the first error. Returns true if `status` is OK.
  bool Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
    return status.ok();
  }

  absl::StatusOr<GgufMetadata> Build() && {
    if (!status_.ok()) return status_;
    return std::move(metadata_);
  }

 private:
  const HfConfig& config_;
  const std::string prefix_;
  GgufMetadata metadata_;
  absl::Status status_;
};

inline constexpr char kSlidingWindow[] = "attention.sliding_window";

// The shortest decimal that is the same float: 1e-05, not 9.999999747378752e-06.
inline double ShortDecimal(double value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof(text), static_cast<float>(value));
  double shortened = value;
  std::from_chars(text, written.ptr, shortened);
  return shortened;
}

// Fills config.json from metadata under "<architecture>.". Remembers the first error.
class ConfigBuilder {
 public:
  ConfigBuilder(const GgufMetadata& metadata, absl::string_view architecture,
                const HfConfigFacts& facts)
      : metadata_(metadata), prefix_(absl::StrCat(architecture, ".")) {
    json_["model_type"] = architecture;
    json_["vocab_size"] = facts.vocab_size;
    json_["tie_word_embeddings"] = facts.tie_word_embeddings;
    json_["torch_dtype"] = facts.torch_dtype;
  }

  // Sets the keys that all families but GPT-2 share.
  void SetSizes() {
    const int64_t heads = Int("attention.head_count");
    json_["max_position_embeddings"] = Int("context_length");
    json_["hidden_size"] = Int("embedding_length");
    json_["num_hidden_layers"] = Int("block_count");
    json_["num_attention_heads"] = heads;
    json_["num_key_value_heads"] = IntOr("attention.head_count_kv", heads);
    json_["rms_norm_eps"] = Double("attention.layer_norm_rms_epsilon");
  }

  int64_t Int(absl::string_view gguf) { return Value(metadata_.GetInt(Key(gguf))); }
  int64_t IntOr(absl::string_view gguf, int64_t fallback) {
    return Value(metadata_.GetIntOr(Key(gguf), fallback));
  }
  double Double(absl::string_view gguf) {
    return ShortDecimal(Value(metadata_.GetDouble(Key(gguf))));
  }
  double DoubleOr(absl::string_view gguf, double fallback) {
    return ShortDecimal(Value(metadata_.GetDoubleOr(Key(gguf), fallback)));
  }
  bool Has(absl::string_view gguf) const { return metadata_.Has(Key(gguf)); }
  std::vector<int64_t> Integers(absl::string_view gguf) {
    return Value(metadata_.GetInts(Key(gguf)));
  }
  std::string TextOr(absl::string_view gguf, std::string fallback) {
    return Value(metadata_.GetStringOr(Key(gguf), std::move(fallback)));
  }
  void Refuse(absl::string_view gguf, const std::string& found, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = Unimplemented(metadata_.where(), ": key \"", Key(gguf), "\" is ", found,
                            ", expected ", expected);
  }
  // Set or refuse linear scaling of positions. Other scaling is refused.
  void SetLinearRope() {
    const double factor = LinearRopeFactor();
    if (factor != 0) json_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
  }
  void RefuseScaledPositions(absl::string_view where = "") {
    const double factor = LinearRopeFactor();
    if (factor == 0 || factor == 1) return;
    Refuse(kFactor, absl::StrCat(factor), absl::StrCat("1", where));
  }
  nlohmann::json& operator[](const char* key) { return json_[key]; }

  absl::StatusOr<HfConfig> Build() && {
    if (!status_.ok()) return status_;
    for (const char* id : {"bos", "eos"}) {
      const std::string key = absl::StrCat("tokenizer.ggml.", id, "_token_id");
      if (!metadata_.Has(key)) continue;
      ZEROTH_ASSIGN_OR_RETURN(json_[absl::StrCat(id, "_token_id")], metadata_.GetInt(key));
    }
    return HfConfig::Parse(json_.dump(), metadata_.where());
  }

 private:
  static constexpr char kFactor[] = "rope.scaling.factor";

  // The factor of linear scaling of positions, where 0 means none. Refuses other scaling. These are
  // llama.cpp's rules: the default type is linear, and older files use another key.
  double LinearRopeFactor() {
    const std::string type = TextOr("rope.scaling.type", "linear");
    const double factor = DoubleOr(kFactor, DoubleOr("rope.scale_linear", 0.0));
    if (type == "linear") return factor;
    if (type != "none") {
      Refuse("rope.scaling.type", absl::StrCat("\"", type, "\""), "none or linear");
    }
    return 0.0;
  }

  std::string Key(absl::string_view gguf) const { return absl::StrCat(prefix_, gguf); }

  template <typename T>
  T Value(absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    if (status_.ok()) status_ = value.status();
    return T();
  }

  const GgufMetadata& metadata_;
  const std::string prefix_;
  nlohmann::json json_;
  absl::Status status_;
};

// Gemma 2 and 3, in gguf_gemma.cc.
absl::StatusOr<GgufMetadata> Gemma2Metadata(const HfConfig& config);
absl::StatusOr<HfConfig> Gemma2Config(const GgufMetadata& metadata, const HfConfigFacts& facts);
absl::StatusOr<GgufMetadata> Gemma3Metadata(const HfConfig& config);
absl::StatusOr<HfConfig> Gemma3Config(const GgufMetadata& metadata, const HfConfigFacts& facts);
// Qwen3.5, in gguf_qwen35.cc.
absl::StatusOr<GgufMetadata> Qwen35Metadata(const HfConfig& config);
absl::StatusOr<HfConfig> Qwen35Config(const GgufMetadata& metadata, const HfConfigFacts& facts);
absl::StatusOr<GgufLinearDivision> Qwen35Division(const GgufMetadata& metadata);
// gpt-oss, in gguf_gpt_oss.cc.
absl::StatusOr<GgufMetadata> GptOssMetadata(const HfConfig& config);
absl::StatusOr<HfConfig> GptOssConfig(const GgufMetadata& metadata, const HfConfigFacts& facts);

}  // namespace zeroth
