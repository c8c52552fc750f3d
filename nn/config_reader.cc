// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/config_reader.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// The product of three sizes up to this fits an int64.
constexpr int64_t kMostConfigSize = int64_t{1} << 20;

}  // namespace

const nlohmann::json* ConfigReader::Find(absl::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::Has(absl::string_view key) const { return Find(key) != nullptr; }

bool ConfigReader::IsNull(absl::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found != json_.end() && found->is_null();
}

void ConfigReader::Wrong(absl::string_view key, absl::string_view expectation) {
  if (!status_.ok()) return;
  const nlohmann::json* found = Find(key);
  const std::string what = found == nullptr
                               ? "is missing"
                               : "is " + found
                                             ->dump(-1, ' ', /*ensure_ascii=*/true,
                                                    nlohmann::json::error_handler_t::replace)
                                             .substr(0, 100);
  status_ = InvalidArgument("model configuration: '", prefix_, key, "' ", what, ", expected ",
                            expectation);
}

int64_t ConfigReader::Size(absl::string_view key) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_number_integer() || found->get<int64_t>() < 1 ||
      found->get<int64_t>() > kMostConfigSize) {
    Wrong(key, absl::StrCat("an integer from 1 to ", kMostConfigSize));
    return 1;
  }
  return found->get<int64_t>();
}

double ConfigReader::Number(absl::string_view key) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_number() || !(found->get<double>() >= 0)) {
    Wrong(key, "a number of at least 0");
    return 0;
  }
  return found->get<double>();
}

bool ConfigReader::Flag(absl::string_view key) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr || !found->is_boolean()) {
    Wrong(key, "true or false");
    return false;
  }
  return found->get<bool>();
}

std::vector<int64_t> ConfigReader::Indices(absl::string_view key) {
  const nlohmann::json* found = Find(key);
  std::vector<int64_t> indices;
  bool right = found != nullptr && found->is_array();
  for (size_t i = 0; right && i < found->size(); ++i) {
    // JSON built by a program may hold signed numbers; parsed non-negative ones are unsigned.
    const nlohmann::json& index = (*found)[i];
    right = index.is_number_integer() && index >= 0 && index <= kMostConfigSize;
    if (right) indices.push_back(index.get<int64_t>());
  }
  if (!right) Wrong(key, "a list of integers of at least 0");
  return indices;
}

std::string ConfigReader::Text(absl::string_view key, absl::string_view fallback) {
  const nlohmann::json* found = Find(key);
  if (found == nullptr) return std::string(fallback);
  if (!found->is_string()) {
    Wrong(key, "a string");
    return std::string(fallback);
  }
  return found->get<std::string>();
}

void ConfigReader::Require(bool condition, absl::string_view key, absl::string_view expectation) {
  if (!condition) Wrong(key, expectation);
}

}  // namespace zeroth
