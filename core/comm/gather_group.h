// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Several all-gathers as one operation, such as those of all parameters of a unit.

#ifndef ZEROTH_CORE_COMM_GATHER_GROUP_H_
#define ZEROTH_CORE_COMM_GATHER_GROUP_H_

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

// A communicator whose transport runs several gathers as one operation implements this, too.
class GathersTogether {
 public:
  virtual ~GathersTogether() = default;
  // As AllGatherAll. `gathers` has at least two elements.
  virtual absl::Status AllGatherTogether(absl::Span<const GatherBuffers> gathers, Stream& stream,
                                         absl::string_view label) = 0;
};

// As Communicator::AllGather for each of `gathers`; together if `group` can, and then in any order
// or at once. So the buffers of different gathers must not overlap. Ranks compare them, and
// CommStats counts them, as calls of their own. All ranks pass the same gathers to one call, which
// nothing compares.
absl::Status AllGatherAll(Communicator& group, absl::Span<const GatherBuffers> gathers,
                          Stream& stream, absl::string_view label);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_GATHER_GROUP_H_
