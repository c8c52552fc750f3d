// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The part of a unit's gathered parameters, in param_dtype, that a rank keeps within a step, so
// that further gathers stay inside a group. It is 1 / group size of the unit, and comes from one of
// two places. The forward leaves it for a backward that gathers inside a smaller group (FSDP2's
// reshard_after_forward = k; ZeRO++'s hpZ, Wang et al., 2023). Or, if owners of masters span
// groups, one gather across groups brings it (Megatron-FSDP's hybrid FSDP, see Mesh). No bit
// changes. Used by one rank's thread only.
class KeptParts {
 public:
  bool defined() const { return last_use_ != nullptr; }
  // Copies this rank's part of a gathered unit, on the compute stream. The size of `group` divides
  // that of the shard group.
  absl::Status Copy(const Unit& unit, const Communicator& group);
  // All-gathers this rank's part of its shard group from the owners in all groups.
  absl::Status GatherAcross(const Unit& unit, Communicator& across, const GatherTools& tools,
                            Stream& comm);
  // As GatherSegments, but gathers the parts that the ranks of `group` keep, by `collectives`.
  absl::Status Gather(Unit& unit, Communicator& group, UnitCollectives& collectives,
                      const GatherTools& tools, Stream& comm);
  // Frees the memory after making the compute stream wait for its last use. If the compute stream
  // has failed, returns its error, and keeps memory that may be in use until the next Drop.
  absl::Status Drop(Stream& compute);

 private:
  // Allocates one of `pieces` parts of each segment.
  absl::Status Allocate(const Unit& unit, int pieces, Stream& writer);

  std::vector<Tensor> parts_;  // by segment; undefined for segments that every rank holds
  std::shared_ptr<Event> last_use_;
};

}  // namespace zeroth
