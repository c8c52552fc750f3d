// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CALL_WATCH_H_
#define ZEROTH_KERNELS_CALL_WATCH_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/matrix.h"

namespace zeroth {

// A tensor that a call of an operation reads or writes, with the name of its field.
struct CallField {
  const char* name;
  Matrix values;
};

// Observes every call of the kernels that it is set for (Kernels::set_watch), to find out which
// call produced a value. It is slow, and meant for debugging only.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  // Called after `operation` has been enqueued. The call returns its error.
  virtual absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_CALL_WATCH_H_
