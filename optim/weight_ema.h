// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_WEIGHT_EMA_H_
#define ZEROTH_OPTIM_WEIGHT_EMA_H_

#include <cstdint>
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
// by timm and EDM), average = decay * average + (1 - decay) * weights: often a better model than
// the last weights, for 4 bytes a parameter that this rank owns. Of the fp32 masters, sharded as
// the optimizer's moments are, and offloaded where these are; weights that take no gradient are
// their own average. Element by element, so where shards begin changes no bit, and neither does
// offloading. Used by one rank's thread only.
class WeightEma {
 public:
  // InvalidArgument as ValidateEmaDecay, and for masters in less than fp32, where the average would
  // be rounded away at every exchange. `sharding` and `kernels` outlive the average.
  static absl::StatusOr<std::unique_ptr<WeightEma>> Create(Sharding& sharding, Kernels& kernels,
                                                           double decay);

  // Takes the weights into the average: after each step that was not skipped. The first time, the
  // average becomes the weights, as torch's AveragedModel begins: no trace is left of values from
  // before the training. Enqueued on the kernels' stream. FailedPrecondition while swapped.
  absl::Status Update();

  // Exchanges weights and average, and the next time back: in between, whatever gathers weights
  // (evaluation, sampling, export) sees the average. With no update so far, nothing changes.
  // Between steps, and ends one of inference alone (Scheduler::EndStep); FailedPrecondition names a
  // unit that is within one. Waits for the device; takes
  // at most 4 MiB of memory on the way, beyond what offloaded state passes through.
  absl::Status Swap();
  bool swapped() const { return swapped_; }

  // Updates so far.
  int64_t updates() const { return updates_; }
  // As if so many had been made: for an average that comes from elsewhere.
  void set_updates(int64_t updates) { updates_ = updates; }
  // The averages, as "ema". FailedPrecondition while swapped.
  absl::StatusOr<std::vector<ShardState>> states() const;
  // Of this rank's average, wherever it lies.
  int64_t MemoryBytes() const;

 private:
  struct State {
    Unit* unit;
    int segment;
    StateTensor average;  // [shard_numel] fp32
  };

  WeightEma(Sharding& sharding, Kernels& kernels, double decay)
      : sharding_(sharding), kernels_(kernels), decay_(decay) {}
  absl::StatusOr<StateTensor> ZeroAverage(int64_t numel) const;
  absl::Status Copy(const Tensor& to, const Tensor& from);
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

#endif  // ZEROTH_OPTIM_WEIGHT_EMA_H_
