// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// Reads the keys of a Hugging Face config.json, and remembers the first error, so that a family's
// reader is a list of its keys. Keys that are null count as absent, except for IsNull.
class ConfigReader {
 public:
  // Messages put `prefix` before keys: "rope_scaling." for an object inside the file.
  explicit ConfigReader(const nlohmann::json& json, std::string prefix = "")
      : json_(json), prefix_(std::move(prefix)) {}

  // Returns a positive integer. Here and below, an absent key is an error unless there is a
  // fallback.
  int64_t Size(absl::string_view key);
  double Number(absl::string_view key);
  bool Flag(absl::string_view key);
  std::vector<int64_t> Indices(absl::string_view key);  // each at least 0
  std::string Text(absl::string_view key, absl::string_view fallback);
  bool Has(absl::string_view key) const;
  // True if the key is present with the value null, for keys whose absence means something else.
  bool IsNull(absl::string_view key) const;

  // Records "key = value is not supported: why" unless `condition` holds.
  void Require(bool condition, absl::string_view key, absl::string_view expectation);

  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(absl::string_view key) const;
  void Wrong(absl::string_view key, absl::string_view expectation);

  const nlohmann::json& json_;
  const std::string prefix_;
  absl::Status status_;
};

}  // namespace zeroth
