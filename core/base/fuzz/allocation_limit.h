// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// While one lives, `operator new` aborts the process, naming `label` and the numbers, when it is
// asked for more than `largest_request` bytes at once or when what it gave out since and did not
// get back comes to more than `most_held`. At the very call, so that the stack shows who asked.
// Programs that link this have their `operator new` replaced. One at a time, in a program that
// allocates in one thread.
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
