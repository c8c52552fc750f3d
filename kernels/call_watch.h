// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CALL_WATCH_H_
#define ZEROTH_KERNELS_CALL_WATCH_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/matrix.h"

namespace zeroth {

// What a call of an operation reads or writes, by the name that its arguments give it.
struct CallField {
  const char* name;
  Matrix values;
};

// Sees every call of the kernels that it is set for (Kernels::set_watch), to find out which of them
// made something: for searches, since nothing else is as slow.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  // `operation` has just been enqueued. An error is that of the call.
  virtual absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_CALL_WATCH_H_
