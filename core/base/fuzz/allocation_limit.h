// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// While one exists, `operator new` aborts the process, naming `label` and the numbers, if a request
// exceeds `largest_request` bytes, or if the bytes allocated since and not freed exceed
// `most_held`. It aborts in that call, so that the stack shows the caller. Replaces `operator new`
// in programs that link it. Only one may exist at a time, in a program that allocates on one
// thread.
class AllocationLimit {
 public:
  AllocationLimit(size_t largest_request, size_t most_held, absl::string_view label);
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
  ~AllocationLimit();

 private:
  const std::string label_;
};

}  // namespace zeroth
