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
  // Longest text, in bytes.
  size_t max_bytes = size_t{64} << 20;
};

// Parses one JSON value. Unlike the library's own parser it never throws, limits the depth of
// nesting, and refuses an object with the same key twice (readers disagree about which value
// counts). InvalidArgument begins with `where` (normally the path) and says what is wrong at which
// line.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view where,
                                         const JsonLimits& limits = {});

// ParseJson of the file at `path`.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, const JsonLimits& limits = {});

}  // namespace zeroth
