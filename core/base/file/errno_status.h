// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Returns the status of a failed system call: "cannot <action>: <text of error_number>". The code
// is NotFound, PermissionDenied, ResourceExhausted (no space, or beyond a limit), AlreadyExists or
// FailedPrecondition where one of these fits, otherwise Internal.
absl::Status ErrnoStatus(int error_number, absl::string_view action);

}  // namespace zeroth
