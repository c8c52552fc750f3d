// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/unit_collectives.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status UnitCollectives::AllGather(const Tensor& mine, const Tensor& full,
                                        const CollectiveContext& context) {
  return context.group.AllGather(mine, full, context.stream, context.label);
}

absl::Status UnitCollectives::ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op,
                                            bool accumulate, const CollectiveContext& context) {
  return context.group.ReduceScatter(full, mine, op, context.stream, context.label, accumulate);
}

absl::Status UnitCollectives::AllReduce(const Tensor& values, ReduceOp op,
                                        const CollectiveContext& context) {
  return context.group.AllReduce(values, op, context.stream, context.label);
}

absl::Status ExtendedGather::AllGather(const Tensor& mine, const Tensor& full,
                                       const CollectiveContext& context) {
  ZEROTH_CHECK(context.kernels != nullptr);
  const int pieces = context.group.size();
  const int64_t bytes = extension_->EncodedBytes(mine.numel(), mine.dtype());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor encoded,
                          context.scratch->TakeBytes(pieces * bytes, context.stream));
  const Tensor own = encoded.View(context.group.rank() * bytes, Shape({bytes}));
  ZEROTH_RETURN_IF_ERROR(extension_->Encode(mine, own, *context.kernels));
  ZEROTH_RETURN_IF_ERROR(context.group.AllGather(own, encoded, context.stream, context.label));
  return extension_->Decode(encoded, pieces, full, *context.kernels);
}

}  // namespace zeroth
