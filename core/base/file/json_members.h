// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// Returns at most 40 characters of the JSON, for messages.
std::string BriefJson(const nlohmann::json& json);

// Reads the members of one object. It keeps the first error, as an InvalidArgument that says where
// it is, what was found and what was expected. So a caller reads all members and checks the status
// once. After an error the returned values are meaningless. Not thread-safe.
class JsonMembers {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  // `place` begins messages. `status` receives the first error, and may be shared with other
  // JsonMembers. `object` and `status` must outlive this.
  JsonMembers(const nlohmann::json& object, std::string place, absl::Status& status);

  int64_t Integer(absl::string_view key, int64_t least = 0, int64_t most = kMost);
  uint64_t Unsigned(absl::string_view key) {
    return Get<uint64_t>(key, &Json::is_number_unsigned, "an unsigned integer");
  }
  bool Bool(absl::string_view key) { return Get<bool>(key, &Json::is_boolean, "true or false"); }
  double Number(absl::string_view key) { return Get<double>(key, &Json::is_number, "a number"); }
  std::string Text(absl::string_view key) {
    return Get<std::string>(key, &Json::is_string, "a string");
  }
  // Returns a checksum in the form of ChecksumText.
  uint64_t Checksum(absl::string_view key);
  const nlohmann::json& Object(absl::string_view key) {
    return Member(key, &Json::is_object, "an object");
  }
  const nlohmann::json& Array(absl::string_view key) {
    return Member(key, &Json::is_array, "an array");
  }
  std::vector<int64_t> Integers(absl::string_view key, int64_t least, int64_t most);
  std::vector<double> Numbers(absl::string_view key);
  // [begin, end] with 0 <= begin <= end <= most.
  std::pair<int64_t, int64_t> Range(absl::string_view key, int64_t most);

  bool Has(const std::string& key) const { return object_.contains(key); }
  bool ok() const { return status_.ok(); }
  const std::string& place() const { return place_; }
  absl::Status& status() { return status_; }
  // Sets the error of the member, unless there is one already.
  void Wrong(absl::string_view key, absl::string_view found, absl::string_view expected);

 private:
  using Json = nlohmann::json;
  // Returns the member, or null.
  const Json& Find(absl::string_view key);
  // Returns the member if `is` holds for it, otherwise null.
  const Json& Member(absl::string_view key, bool (Json::*is)() const, const char* expected);
  template <typename T>
  T Get(absl::string_view key, bool (Json::*is)() const, const char* expected) {
    const Json& json = Member(key, is, expected);
    return ok() ? json.get<T>() : T();
  }
  int64_t IntegerOf(const nlohmann::json& json, absl::string_view key, int64_t least, int64_t most);

  const nlohmann::json& object_;
  const std::string place_;
  absl::Status& status_;
};

}  // namespace zeroth
