// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Several calls as one operation, such as the gathers, or the reductions, of all parameters of a
// unit.

#ifndef ZEROTH_CORE_COMM_CALL_GROUP_H_
#define ZEROTH_CORE_COMM_CALL_GROUP_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The buffers of one gather, as for Communicator::AllGather.
struct GatherBuffers {
  BufferView send;
  BufferView recv;
};

// The buffers of one reduction, as for Communicator::ReduceScatter.
struct ReductionBuffers {
  BufferView send;
  BufferView recv;
  bool accumulate = false;
};

// A communicator whose transport runs several calls as one operation implements this, too.
class CallsTogether {
 public:
  virtual ~CallsTogether() = default;
  // As AllGatherAll and ReduceScatterAll. The spans have at least two elements.
  virtual absl::Status AllGatherTogether(absl::Span<const GatherBuffers> gathers, Stream& stream,
                                         absl::string_view label) = 0;
  virtual absl::Status ReduceScatterTogether(absl::Span<const ReductionBuffers> reductions,
                                             ReduceOp op, Stream& stream,
                                             absl::string_view label) = 0;
};

// As Communicator::AllGather for each of `gathers`, or ReduceScatter for each of `reductions`;
// together if `group` can, and then in any order or at once. So the buffers of different calls must
// not overlap. Ranks compare them, and CommStats counts them, as calls of their own. All ranks pass
// equally many, which nothing compares.
absl::Status AllGatherAll(Communicator& group, absl::Span<const GatherBuffers> gathers,
                          Stream& stream, absl::string_view label);
absl::Status ReduceScatterAll(Communicator& group, absl::Span<const ReductionBuffers> reductions,
                              ReduceOp op, Stream& stream, absl::string_view label);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_CALL_GROUP_H_
