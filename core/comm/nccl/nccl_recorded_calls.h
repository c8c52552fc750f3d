// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_RECORDED_CALLS_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_RECORDED_CALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/nccl/nccl_world.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/core/device/cuda/playback.h"

namespace zeroth::nccl {

// Where a communicator's latest call is, after which its next one comes.
struct LastCall {
  const Stream* stream = nullptr;
  std::shared_ptr<Event> end = nullptr;
};

// The calls of one communicator in one recording. Ranks agree on them when they record, call by
// call; and on each play, as one call more, so that a rank which does not play is missed by name,
// and a play that the device does not finish is noticed. Used by the rank's thread.
class RecordedCalls final : public cuda::PlayObserver {
 public:
  // What the communicator itself uses.
  struct Shared {
    std::shared_ptr<World> world;
    uint32_t group = 0;
    std::shared_ptr<Traffic> traffic;
    std::shared_ptr<cuda::HostCondition> agreement;
    std::shared_ptr<LastCall> last_call;
    std::shared_ptr<CommStats> stats;
  };

  explicit RecordedCalls(Shared shared) : shared_(std::move(shared)) {}

  void Add(CollectiveOp op, int64_t bytes, const CollectiveCall& call);
  absl::Status BeforePlay(cuda::CudaStream& stream) override;
  absl::Status AfterPlay(cuda::CudaStream& stream, const std::shared_ptr<Event>& end) override;

 private:
  struct Call {
    CollectiveOp op = CollectiveOp::kBarrier;
    int64_t bytes = 0;
    CollectiveCall call = {};
  };

  const Shared shared_;
  std::vector<Call> calls_;
  // Of the play that is being enqueued.
  CollectiveCall play_;
  uint64_t number_ = 0;
  std::shared_ptr<Event> begin_;
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_RECORDED_CALLS_H_
