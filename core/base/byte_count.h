// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Parses a number of bytes: "1500", "64KiB", "1.5MiB", "2GiB", or "5GB" (10^9, as Hugging Face
// counts). Rounds down. InvalidArgument for anything else, and for negative or infinite numbers.
absl::StatusOr<int64_t> ParseByteCount(absl::string_view text);

}  // namespace zeroth
