// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_KEPT_PARTS_H_
#define ZEROTH_STRATEGIES_KEPT_PARTS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The part of a unit's gathered parameters that a rank keeps within a step, in the type that is
// computed in, so that further gathers stay inside a group: 1 / group size of the unit. Either what
// its forward has left, for a backward that gathers inside a smaller group (FSDP2's
// reshard_after_forward = k; ZeRO++'s hpZ, Wang et al., 2023). Or what the owners of masters in all
// groups have been asked for once, where these span groups (Megatron-FSDP's hybrid FSDP, see Mesh).
// No bit changes. One rank's thread only.
class KeptParts {
 public:
  bool defined() const { return last_use_ != nullptr; }
  // Copies this rank's part among `group`, whose size divides that of the shard group, out of a
  // gathered unit, on the compute stream.
  absl::Status Copy(const Unit& unit, const Communicator& group);
  // Gathers this rank's part of its shard group across groups.
  absl::Status GatherAcross(const Unit& unit, Communicator& across, const GatherTools& tools,
                            Stream& comm);
  // As GatherSegments, from the parts that the ranks of `group` keep, by `collectives`.
  absl::Status Gather(Unit& unit, Communicator& group, UnitCollectives& collectives,
                      const GatherTools& tools, Stream& comm);
  // Gives the memory back, once the compute stream has waited for its last use; also if that
  // failed, with its error.
  absl::Status Drop(Stream& compute);

 private:
  // `pieces`: into how many parts a segment is divided.
  absl::Status Allocate(const Unit& unit, int pieces, Stream& writer);

  std::vector<Tensor> parts_;  // by segment; undefined where every rank has all of it
  std::shared_ptr<Event> last_use_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_KEPT_PARTS_H_
