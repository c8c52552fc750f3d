// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_config.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr JsonLimits kLimits = {.max_depth = 32, .max_bytes = size_t{16} << 20};

bool FitsInt64(const nlohmann::json& value) {
  if (!value.is_number_integer()) return false;
  return !value.is_number_unsigned() ||
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

}  // namespace

HfConfig::HfConfig(std::shared_ptr<const nlohmann::json> json, std::string where)
    : json_(std::move(json)), where_(std::move(where)) {}

absl::StatusOr<HfConfig> HfConfig::FromJson(nlohmann::json json, std::string where) {
  if (!json.is_object()) {
    return InvalidArgument(where, ": expected a JSON object, found ", json.type_name());
  }
  return HfConfig(std::make_shared<const nlohmann::json>(std::move(json)), std::move(where));
}

absl::StatusOr<HfConfig> HfConfig::Parse(absl::string_view text, std::string where) {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, where, kLimits));
  return FromJson(std::move(json), std::move(where));
}

absl::StatusOr<HfConfig> HfConfig::Load(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json json, ReadJsonFile(path, kLimits));
  return FromJson(std::move(json), path);
}

const nlohmann::json* HfConfig::Find(absl::string_view key) const {
  const nlohmann::json* value = json_.get();
  for (const absl::string_view part : absl::StrSplit(key, '.')) {
    if (!value->is_object()) return nullptr;
    const auto found = value->find(std::string(part));
    if (found == value->end()) return nullptr;
    value = &*found;
  }
  return value->is_null() ? nullptr : value;
}

absl::Status HfConfig::WrongType(absl::string_view key, const nlohmann::json* found,
                                 absl::string_view expected) const {
  if (found == nullptr) {
    return InvalidArgument(where_, ": no key \"", key, "\", expected ", expected);
  }
  constexpr size_t kShown = 60;
  std::string text = found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShown) text = absl::StrCat(text.substr(0, kShown), "...");
  return InvalidArgument(where_, ": key \"", key, "\" is ", text, ", expected ", expected);
}

bool HfConfig::Has(absl::string_view key) const { return Find(key) != nullptr; }

absl::StatusOr<int64_t> HfConfig::GetInt(absl::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !FitsInt64(*value)) return WrongType(key, value, "an integer");
  return value->get<int64_t>();
}

absl::StatusOr<double> HfConfig::GetDouble(absl::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_number()) return WrongType(key, value, "a number");
  return value->get<double>();
}

absl::StatusOr<bool> HfConfig::GetBool(absl::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_boolean()) return WrongType(key, value, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> HfConfig::GetString(absl::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_string()) return WrongType(key, value, "a string");
  return value->get<std::string>();
}

std::string HfConfig::ToString() const {
  return absl::StrCat(json_->dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

}  // namespace zeroth
