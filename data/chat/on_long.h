// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace zeroth {

// How to treat an example that is longer than a row.
enum class OnLong : uint8_t {
  kTruncate,  // its end is left out, and all of it if nothing before the cut is a target
  kSplit,     // it becomes several, each a row long but the last, without those that have no target
  kDrop,      // it is left out
  kRefuse,    // EncodeConversations returns InvalidArgument
};

}  // namespace zeroth
