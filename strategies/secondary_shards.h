// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_SECONDARY_SHARDS_H_
#define ZEROTH_STRATEGIES_SECONDARY_SHARDS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Between its forward and its backward a unit may be sharded over fewer ranks than its masters are:
// each keeps a larger part, in the type that is computed in, and backward gathers inside a small
// group, such as one machine (FSDP2's reshard_after_forward = k; ZeRO++'s hpZ, Wang et al., 2023).
// The values are those of the forward, so no bit changes. One rank's thread only.
class SecondaryShards {
 public:
  // `group` are neighbouring ranks of the shard group; its size divides that of the shard group.
  // Full parameters go back to, and come from, `buffers`; both outlive this.
  SecondaryShards(Communicator& group, FullBuffers& buffers) : group_(group), buffers_(buffers) {}

  bool Holds(const Unit& unit) const;
  // After a forward: copies this rank's part out of the full parameters and frees these: kGathered
  // → kSharded. Keeps what it holds already.
  absl::Status Keep(Unit& unit);
  // As GatherSegments, from what is held.
  absl::Status Gather(Unit& unit, Stream& comm);
  // The compute stream must have waited for the last Gather.
  void Drop(const Unit& unit);
  void Clear() { held_.clear(); }

 private:
  struct Held {
    std::vector<Tensor> parts;      // by segment; undefined where shards are the full parameters
    std::shared_ptr<Event> copied;  // on the compute stream
  };

  Communicator& group_;
  FullBuffers& buffers_;
  std::vector<Held> held_;  // by unit index
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SECONDARY_SHARDS_H_
