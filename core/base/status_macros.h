// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Short forms of errors, and early return on error, for functions that return absl::Status or
// absl::StatusOr.

#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Returns the same code and payloads with "context: " before the message; OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// Returns the error of that code. Its message is the parts, joined as by absl::StrCat.
template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}
template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat(parts...));
}

}  // namespace zeroth

#define ZEROTH_STATUS_CONCAT_INNER(a, b) a##b
#define ZEROTH_STATUS_CONCAT(a, b) ZEROTH_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (an absl::Status) is not OK.
#define ZEROTH_RETURN_IF_ERROR(expr)                                \
  do {                                                              \
    if (absl::Status zeroth_status = (expr); !zeroth_status.ok()) { \
      return zeroth_status;                                         \
    }                                                               \
  } while (false)

// Like ZEROTH_RETURN_IF_ERROR, but puts "context: " before the message. `context` is evaluated only
// on error.
#define ZEROTH_RETURN_IF_ERROR_WITH(expr, context)                  \
  do {                                                              \
    if (absl::Status zeroth_status = (expr); !zeroth_status.ok()) { \
      return ::zeroth::Annotate(zeroth_status, (context));          \
    }                                                               \
  } while (false)

// ZEROTH_ASSIGN_OR_RETURN(auto x, F()): assigns the value of an absl::StatusOr or returns its
// status.
#define ZEROTH_ASSIGN_OR_RETURN(lhs, expr) \
  ZEROTH_ASSIGN_OR_RETURN_IMPL(ZEROTH_STATUS_CONCAT(zeroth_status_or_, __LINE__), lhs, expr)

#define ZEROTH_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) {                                   \
    return std::move(result).status();                  \
  }                                                     \
  lhs = *std::move(result)
