// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// The config.json of a Hugging Face model directory: a JSON object with typed look-ups. Their
// errors name the file, the key, what was found and what was expected. An immutable value; copies
// are cheap.
//
// Dots in a key reach into nested objects: "rope_parameters.rope_theta". A key whose value is null
// counts as absent, as in transformers.
class HfConfig {
 public:
  // Reads a file; at most 16 MiB.
  static absl::StatusOr<HfConfig> Load(const std::string& path);
  // Parses `text`. Messages show `where` instead of the path.
  static absl::StatusOr<HfConfig> Parse(absl::string_view text, std::string where);

  bool Has(absl::string_view key) const;

  // Get*: InvalidArgument if the key is absent or has another type. Integers must fit an int64; a
  // float with an integral value is refused as an integer, an integer is accepted as a double.
  absl::StatusOr<int64_t> GetInt(absl::string_view key) const;
  absl::StatusOr<double> GetDouble(absl::string_view key) const;
  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  absl::StatusOr<std::string> GetString(absl::string_view key) const;

  // Get*Or: `fallback` if the key is absent; InvalidArgument if it has another type.
  absl::StatusOr<int64_t> GetIntOr(absl::string_view key, int64_t fallback) const {
    return Has(key) ? GetInt(key) : fallback;
  }
  absl::StatusOr<double> GetDoubleOr(absl::string_view key, double fallback) const {
    return Has(key) ? GetDouble(key) : fallback;
  }
  absl::StatusOr<bool> GetBoolOr(absl::string_view key, bool fallback) const {
    return Has(key) ? GetBool(key) : fallback;
  }
  absl::StatusOr<std::string> GetStringOr(absl::string_view key, std::string fallback) const {
    return Has(key) ? GetString(key) : fallback;
  }

  // "model_type": "gpt2", "llama", ... InvalidArgument when absent.
  absl::StatusOr<std::string> ModelType() const { return GetString("model_type"); }

  const std::string& where() const { return where_; }
  // The whole object.
  const nlohmann::json& json() const { return *json_; }
  // Indented JSON text with sorted keys and a final newline.
  std::string ToString() const;

 private:
  HfConfig(std::shared_ptr<const nlohmann::json> json, std::string where);
  static absl::StatusOr<HfConfig> FromJson(nlohmann::json json, std::string where);
  const nlohmann::json* Find(absl::string_view key) const;
  absl::Status WrongType(absl::string_view key, const nlohmann::json* found,
                         absl::string_view expected) const;

  std::shared_ptr<const nlohmann::json> json_;
  std::string where_;
};

}  // namespace zeroth
