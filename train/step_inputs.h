// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_STEP_INPUTS_H_
#define ZEROTH_TRAIN_STEP_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/data/loader.h"

namespace zeroth {

// Targets that count in the global batches that these are parts of, where some do not; else 0.
int64_t CountedTargets(absl::Span<const Batch> micro_batches);

// What a rank brings to what ranks exchange at the end of a step, besides its losses.
struct RankNews {
  bool flag = false;
  double waited = 0;  // seconds that this rank waited for others in the step before
};

// What a step, or an evaluation, reads in device memory, and what ranks exchange at its end: the
// losses of its micro-batches and their news. A handle: copies share the memory.
class StepInputs {
 public:
  StepInputs() = default;
  // Uninitialised, for micro-batches of these shapes. With a deterministic batch above 0 (see
  // TrainerOptions) the losses of all ranks are exchanged one by one, in places of their own.
  // Of `ranks_per_data` neighbouring ranks, which have the same micro-batches, the first one's
  // losses are exchanged then. `world` and `device` outlive the result.
  static absl::StatusOr<StepInputs> Create(Communicator& world, Device& device,
                                           absl::Span<const Batch> micro_batches,
                                           int64_t deterministic_batch, int ranks_per_data = 1);

  int64_t micro_batches() const { return static_cast<int64_t>(tokens_.size()); }
  // Of one micro-batch, int32 [batch, seq].
  const Tensor& tokens(int64_t i) const { return tokens_[static_cast<size_t>(i)]; }
  const Tensor& targets(int64_t i) const { return targets_[static_cast<size_t>(i)]; }

  // Where documents begin, int32 [batch, seq]; undefined where batches do not say.
  Tensor starts(int64_t i) const {
    return starts_.empty() ? Tensor() : starts_[static_cast<size_t>(i)];
  }
  // What the loss of a micro-batch divides by (Context::set_loss_divisor), so that the mean over
  // micro-batches and ranks is that over all targets that count. Undefined where all do.
  const Tensor& divisor() const { return divisor_; }

  // In the order of the compute stream; waits for it, so that the caller's memory is free.
  absl::Status Fill(absl::Span<const Batch> micro_batches, const RankNews& news) const;

  // Uninitialised, fp32 [micro_batches].
  absl::StatusOr<Tensor> MakeLosses() const;
  // losses[i] = loss, on the device.
  absl::Status KeepLoss(const Tensor& losses, int64_t i, const Tensor& loss) const;
  // Collective: exchanges this rank's losses, and its news, on the device.
  absl::Status ShareLosses(const Tensor& losses, absl::string_view label) const;

  struct Shared {
    float loss = 0;              // the mean over micro-batches and ranks
    bool flag = false;           // some rank had it
    std::vector<double> waited;  // by rank
  };
  // Waits for the device.
  absl::StatusOr<Shared> ReadShared() const;

 private:
  Communicator* world_ = nullptr;
  Device* device_ = nullptr;
  bool is_deterministic_ = false;
  int ranks_per_data_ = 1;
  std::vector<Tensor> tokens_;
  std::vector<Tensor> targets_;
  std::vector<Tensor> starts_;  // none where batches do not say
  Tensor divisor_;
  // fp32 [losses + ranks + 1]: zeros where losses will be, what each rank waited, the flag.
  Tensor shared_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_STEP_INPUTS_H_
