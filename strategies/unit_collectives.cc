// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/unit_collectives.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status UnitCollectives::AllGather(const Tensor& mine, const Tensor& full,
                                        const Travel& travel) {
  return travel.group.AllGather(mine, full, travel.stream, travel.label);
}

absl::Status UnitCollectives::ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op,
                                            bool accumulate, const Travel& travel) {
  return travel.group.ReduceScatter(full, mine, op, travel.stream, travel.label, accumulate);
}

absl::Status UnitCollectives::AllReduce(const Tensor& values, ReduceOp op, const Travel& travel) {
  return travel.group.AllReduce(values, op, travel.stream, travel.label);
}

absl::Status ExtendedGather::AllGather(const Tensor& mine, const Tensor& full,
                                       const Travel& travel) {
  ZEROTH_CHECK(travel.kernels != nullptr);
  const int pieces = travel.group.size();
  const int64_t bytes = extension_->EncodedBytes(mine.numel(), mine.dtype());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor encoded,
                          travel.scratch->TakeBytes(pieces * bytes, travel.stream));
  const Tensor own = encoded.View(travel.group.rank() * bytes, Shape({bytes}));
  ZEROTH_RETURN_IF_ERROR(extension_->Encode(mine, own, *travel.kernels));
  ZEROTH_RETURN_IF_ERROR(travel.group.AllGather(own, encoded, travel.stream, travel.label));
  return extension_->Decode(encoded, pieces, full, *travel.kernels);
}

}  // namespace zeroth
