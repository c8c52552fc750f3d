// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/collective_call.h"

#include "absl/strings/str_cat.h"

namespace zeroth {

std::string CollectiveCall::ToString() const {
  std::string text(operation);
  if (!label.empty()) absl::StrAppend(&text, " '", label, "'");
  absl::StrAppend(&text, " (call ", index + 1);
  if (dtype.has_value() && count == kUnevenCount) {
    absl::StrAppend(&text, ", uneven pieces of ", DTypeName(*dtype));
  } else if (dtype.has_value()) {
    absl::StrAppend(&text, ", ", count, " x ", DTypeName(*dtype));
  }
  if (reduce.has_value()) absl::StrAppend(&text, ", ", ReduceOpName(*reduce));
  if (root.has_value()) absl::StrAppend(&text, ", root ", *root);
  return absl::StrCat(text, ")");
}

}  // namespace zeroth
