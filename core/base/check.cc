// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace zeroth::internal {

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: invariant violated: %s\n", file, line, expression);
  std::fflush(stderr);
  std::abort();
}

}  // namespace zeroth::internal
