// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_shape.h"

#include "absl/strings/str_cat.h"

namespace zeroth {

bool CheckAttentionShape(Operation& op, const AttentionShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.seq >= 0 && shape.heads >= 0 &&
                     shape.kv_heads >= 0 && shape.head_dim >= 0 && shape.window >= 0;
  if (!op.Require(sizes, "shape", "has a negative size")) return false;
  const bool divides = shape.kv_heads > 0 ? shape.heads % shape.kv_heads == 0 : shape.heads == 0;
  return divides || op.Require(false, "shape",
                               absl::StrCat("has ", shape.heads, " heads and ", shape.kv_heads,
                                            " kv_heads, expected a divisor of heads"));
}

bool CheckPacked(Operation& op, const char* field, const Tensor& tensor,
                 const AttentionShape& shape, SharedType& type) {
  return op.Rows(field, tensor, shape.batch * shape.seq, shape.packed_dim(), type);
}

}  // namespace zeroth
