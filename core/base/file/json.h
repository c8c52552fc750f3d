// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

struct JsonLimits {
  // Deepest nesting of objects and arrays.
  int max_depth = 32;
  // The longest accepted text, in bytes.
  size_t max_bytes = size_t{64} << 20;
};

// Parses one JSON value. Unlike the library's own parser it never throws, limits the depth of
// nesting, and refuses an object with the same key twice (readers disagree about which value
// counts). InvalidArgument begins with `where` (normally the path) and says what is wrong at which
// line and column, with a short excerpt.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where,
                                         const JsonLimits& limits = {});
// Like ParseJson, but keeps the members of objects in the order of the text. Looking up a member
// takes time linear in their number.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        absl::string_view where,
                                                        const JsonLimits& limits = {});

// The result of StartOfJson.
struct JsonStart {
  bool is_json = false;   // a JSON value, or the beginning of one that the text's end cuts
  bool is_whole = false;  // that value ends in the text
  size_t bytes = 0;       // up to the value's end, if it is whole
};

// Says whether `text` begins with a JSON value, whatever follows it. A byte order mark may precede.
JsonStart StartOfJson(absl::string_view text);

// Returns the beginning of a value's JSON, in ASCII, for messages.
std::string QuoteJson(const nlohmann::ordered_json& json);

// ParseJson of the file at `path`.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, const JsonLimits& limits = {});

}  // namespace zeroth
