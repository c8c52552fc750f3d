// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks of our own invariants. What a user, a file or a network can cause is an absl::Status
// instead.

#pragma once

namespace zeroth::internal {

// Prints "file:line: invariant violated: expression" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);

}  // namespace zeroth::internal

// Aborts with the place and the expression unless `condition` holds; active in every build mode.
#define ZEROTH_CHECK(condition)       \
  ((condition) ? static_cast<void>(0) \
               : ::zeroth::internal::CheckFailed(__FILE__, __LINE__, #condition))
