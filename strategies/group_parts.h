// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_GROUP_PARTS_H_
#define ZEROTH_STRATEGIES_GROUP_PARTS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/stream_scratch.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// What shard groups work with where the owners of masters span them (Mesh): for each unit this
// rank's part of its group's parameters, 1 / shard size of them, in the type that is computed in.
// The first gather of a step gathers that part across groups; it is kept until the step ends, so
// that every further gather of backward and of more micro-batches stays inside the group
// (Megatron-FSDP's hybrid FSDP). One rank's thread only.
class GroupParts {
 public:
  struct Context {
    Device* device = nullptr;
    Mesh* mesh = nullptr;  // whose owners span groups
    FullBuffers* buffers = nullptr;
    Kernels* kernels = nullptr;  // as in GatherSegments, and these:
    StreamScratch* staging = nullptr;
    StreamScratch* travel = nullptr;
  };

  // All of `context` outlives this.
  explicit GroupParts(const Context& context) : context_(context) {}

  // As GatherSegments, in two steps the first time.
  absl::Status Gather(Unit& unit, Stream& comm);
  // With every stream idle.
  void Drop(const Unit& unit);
  // Between steps, since the optimizer makes parts stale: gives all memory back once the compute
  // stream has waited for its last use; also if that failed, with its error.
  absl::Status Clear();

 private:
  struct Held {
    std::vector<Tensor> parts;        // by segment; undefined where nothing is cut
    std::shared_ptr<Event> last_use;  // on the gather's stream; nullptr: not gathered yet
  };

  absl::Status GatherAcross(Unit& unit, Held& held, Stream& comm);
  absl::Status AllocateParts(const Unit& unit, Held& held, Stream& comm);
  absl::Status GatherInside(Unit& unit, const Held& held, Stream& comm);

  Context context_;
  std::vector<Held> held_;  // by unit index
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_GROUP_PARTS_H_
