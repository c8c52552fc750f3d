// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// InvalidArgument unless `decay` is in [0, 1).
absl::Status ValidateEmaDecay(double decay);

// The exponential moving average of the weights over the steps (Polyak and Juditsky, 1992; as kept
// by timm and EDM), average = decay * average + (1 - decay) * weights. It is often a better model
// than the last weights, for 4 bytes of memory for each parameter that this rank owns. It averages
// the fp32 masters, and is sharded and offloaded as the optimizer's moments are. Weights without a
// gradient do not change, and have no average. It is computed element by element, so no bit depends
// on where shards begin, nor on offloading. Used by one rank's thread only.
class WeightEma {
 public:
  // InvalidArgument as ValidateEmaDecay, and for masters below fp32, since every swap would round
  // the average. `sharding` and `kernels` outlive the average.
  static absl::StatusOr<std::unique_ptr<WeightEma>> Create(Sharding& sharding, Kernels& kernels,
                                                           double decay);

  // Adds the weights to the average. Call it after each step that was not skipped. The first update
  // copies the weights, as torch's AveragedModel does, so that no values from before the training
  // remain. Enqueued on the kernels' stream. FailedPrecondition while swapped.
  absl::Status Update();

  // Swaps weights and average; the next call swaps them back. In between, everything that gathers
  // weights (evaluation, sampling, export) sees the average. Before the first update, nothing
  // changes. Call it between steps; it ends an inference-only step (Scheduler::EndStep).
  // FailedPrecondition names a unit that is within a step. Waits for the device. Uses at most 4 MiB
  // of memory meanwhile, besides the staging of offloaded state.
  absl::Status Swap();
  bool swapped() const { return swapped_; }

  // Returns the number of updates so far.
  int64_t updates() const { return updates_; }
  // Sets that number, for an average that was loaded.
  void set_updates(int64_t updates) { updates_ = updates; }
  // Returns the averages as states named "ema". FailedPrecondition while swapped.
  absl::StatusOr<std::vector<ShardState>> states() const;

 private:
  struct State {
    Unit* unit;
    int segment;
    StateTensor average;  // [shard_numel] fp32
  };

  WeightEma(Sharding& sharding, Kernels& kernels, double decay)
      : sharding_(sharding), kernels_(kernels), decay_(decay) {}
  absl::Status Copy(const Tensor& to, const Tensor& from);
  // Runs `body` on the averages and weights of all segments, chunk by chunk if they are offloaded.
  absl::Status RunPasses(
      bool writes_weights,
      const std::function<absl::Status(const Tensor& average, const Tensor& weights)>& body);
  absl::Status SwapPieces(const Tensor& weights, const Tensor& average, const Tensor& scratch);
  absl::Status SwapAll();

  Sharding& sharding_;
  Kernels& kernels_;
  double decay_;
  std::vector<State> states_;
  int64_t updates_ = 0;
  bool swapped_ = false;
};

}  // namespace zeroth
