// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/json_members.h"

#include <algorithm>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

using Json = nlohmann::json;

std::string BriefJson(const Json& json) {
  return Shorten(json.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
}

JsonMembers::JsonMembers(const Json& object, std::string place, absl::Status& status)
    : object_(object), place_(std::move(place)), status_(status) {}

void JsonMembers::Wrong(absl::string_view key, absl::string_view found,
                        absl::string_view expected) {
  if (!status_.ok()) return;
  status_ = InvalidArgument(place_, ": \"", key, "\": ", found, ", expected ", expected);
}

const Json& JsonMembers::Find(absl::string_view key) {
  static const Json& none = *new Json();
  if (!status_.ok()) return none;
  if (!object_.is_object()) {
    status_ = InvalidArgument(place_, ": ", BriefJson(object_), ", expected an object");
    return none;
  }
  const auto found = object_.find(std::string(key));
  if (found == object_.end()) {
    status_ = InvalidArgument(place_, ": no \"", key, "\", expected one");
    return none;
  }
  return *found;
}

const Json& JsonMembers::Member(absl::string_view key, bool (Json::*is)() const,
                                const char* expected) {
  static const Json& none = *new Json();
  const Json& json = Find(key);
  if (!ok() || (json.*is)()) return json;
  Wrong(key, BriefJson(json), expected);
  return none;
}

int64_t JsonMembers::IntegerOf(const Json& json, absl::string_view key, int64_t least,
                               int64_t most) {
  // Unsigned values above 2^63 would wrap around.
  const bool wraps = json.is_number_unsigned() &&
                     json.get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(most, 0));
  if (json.is_number_integer() && !wraps && json.get<int64_t>() >= least &&
      json.get<int64_t>() <= most) {
    return json.get<int64_t>();
  }
  Wrong(key, BriefJson(json), absl::StrCat("an integer from ", least, " to ", most));
  return least;
}

int64_t JsonMembers::Integer(absl::string_view key, int64_t least, int64_t most) {
  const Json& json = Find(key);
  return ok() ? IntegerOf(json, key, least, most) : least;
}

uint64_t JsonMembers::Checksum(absl::string_view key) {
  const std::string text = Text(key);
  const absl::StatusOr<uint64_t> checksum = ParseChecksum(text);
  if (checksum.ok()) return *checksum;
  if (ok()) {
    status_ = InvalidArgument(place_, ": \"", key, "\": ", checksum.status().message());
  }
  return 0;
}

std::vector<int64_t> JsonMembers::Integers(absl::string_view key, int64_t least, int64_t most) {
  std::vector<int64_t> integers;
  for (const Json& json : Array(key)) integers.push_back(IntegerOf(json, key, least, most));
  return integers;
}

std::vector<double> JsonMembers::Numbers(absl::string_view key) {
  const Json& array = Array(key);
  if (std::all_of(array.begin(), array.end(), std::mem_fn(&Json::is_number))) {
    return ok() ? array.get<std::vector<double>>() : std::vector<double>();
  }
  Wrong(key, BriefJson(array), "an array of numbers");
  return {};
}

std::pair<int64_t, int64_t> JsonMembers::Range(absl::string_view key, int64_t most) {
  const Json& range = Array(key);
  if (!ok()) return {0, 0};
  if (range.size() != 2) {
    Wrong(key, BriefJson(range), "[begin, end]");
    return {0, 0};
  }
  const int64_t begin = IntegerOf(range[0], key, 0, most);
  return {begin, IntegerOf(range[1], key, begin, most)};
}

}  // namespace zeroth
