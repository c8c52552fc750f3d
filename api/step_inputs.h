// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/api/expert_load.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/preference/preference.h"

namespace zeroth {

// A deterministic batch (see TrainerOptions) is divided among any number of ranks: rank r of W
// computes micro-batches r, r + W, r + 2 W, … Returns the number of micro-batches of each rank.
// InvalidArgument unless the world size is a power of two that divides `micro_batches`: only then
// are the ranks' sums parts of the fixed tree over the micro-batches (strategies/unit_program.h).
// The error lists the allowed world sizes.
absl::StatusOr<int64_t> MicroBatchesPerRank(int64_t micro_batches, int world_size);

// Returns the number of targets that count in the global batches of these micro-batches; nullopt if
// all do.
std::optional<int64_t> CountedTargets(absl::Span<const Batch> micro_batches);

// The values that each rank sends to the others at the end of a step, besides its losses.
struct RankReport {
  bool flag = false;
  double waited = 0;  // seconds that this rank waited for other ranks in the step before
};

// The inputs of a step or an evaluation in device memory, and the buffer that ranks exchange at its
// end: the losses of micro-batches and RankReport. A handle: copies share the memory.
class StepInputs {
 public:
  StepInputs() = default;
  // Allocates uninitialised inputs for micro-batches of these shapes. With a deterministic batch
  // above 0 (see TrainerOptions) every loss of every rank has a separate slot in the exchange.
  // `ranks_per_data` neighbouring ranks have the same micro-batches; the first of them then sends
  // the losses. `experts` has the number of experts of each layer that has any. `world` and
  // `device` outlive the result.
  static absl::StatusOr<StepInputs> Create(Communicator& world, Device& device,
                                           absl::Span<const Batch> micro_batches,
                                           int64_t deterministic_batch, int ranks_per_data = 1,
                                           absl::Span<const int64_t> experts = {});

  int64_t micro_batches() const { return static_cast<int64_t>(tokens_.size()); }
  // The tensors of one micro-batch, int32 [batch, seq].
  const Tensor& tokens(int64_t i) const { return tokens_[static_cast<size_t>(i)]; }
  const Tensor& targets(int64_t i) const { return targets_[static_cast<size_t>(i)]; }

  // The tensors below are undefined if batches have none.
  // The position at which each token's document begins, int32 [batch, seq].
  Tensor starts(int64_t i) const { return OrNone(starts_, i); }
  // Batch::pairs, int32 [pairs, 3], and Batch::reference, fp32 [batch, seq].
  Tensor pairs(int64_t i) const { return OrNone(pairs_, i); }
  Tensor reference(int64_t i) const { return OrNone(reference_, i); }
  // Batch::labels, int32 [pairs].
  Tensor labels(int64_t i) const { return OrNone(labels_, i); }
  // Batch::teacher_ids and teacher_log_probs, [batch, seq, k].
  Tensor teacher_ids(int64_t i) const { return OrNone(teacher_ids_, i); }
  Tensor teacher_log_probs(int64_t i) const { return OrNone(teacher_log_probs_, i); }
  // With labels, PreferenceLossArgs::kl: the terms of all micro-batches of all ranks, after
  // ExchangeKl. Undefined without.
  const Tensor& kl() const { return kl_; }
  // If batches have labels but no Batch::reference, reference(i) is what SetReference wrote.
  bool has_references() const { return has_references_; }
  // The divisor of a micro-batch's loss (Context::set_token_divisor), with which the mean over
  // micro-batches and ranks is the mean over all targets that count. Undefined if all targets
  // count.
  const Tensor& divisor() const { return divisor_; }

  // The counts of MoeMlp::set_counts of a layer, fp32 [1, experts], zero after Fill; ExchangeLosses
  // adds them up over ranks. `layer` is an index into Create's `experts`.
  Tensor expert_counts(size_t layer) const;

  // Copies to the device in the order of the compute stream, and waits for the stream: the caller
  // may reuse its memory.
  absl::Status Fill(absl::Span<const Batch> micro_batches, const RankReport& report) const;

  // Returns an uninitialised tensor for losses, fp32 [micro_batches]; with pairs, for
  // PreferenceStatistics, [micro_batches, PreferenceStatistics::kCount].
  absl::StatusOr<Tensor> MakeLosses() const;
  // Sets losses[i] to `loss`, on the device.
  absl::Status SetLoss(const Tensor& losses, int64_t i, const Tensor& loss) const;
  // Collective: exchanges the losses and RankReport of all ranks, on the device.
  absl::Status ExchangeLosses(const Tensor& losses, absl::string_view label) const;

  absl::Status SetReference(int64_t i, const Tensor& losses) const;
  // The counterparts of MakeLosses, SetLoss and ExchangeLosses for this rank's terms of the KL:
  // make an uninitialised tensor, fp32 [micro_batches]; set term i from PreferenceStatistics;
  // exchange the terms.
  absl::StatusOr<Tensor> MakeKlTerms() const;
  absl::Status SetKlTerm(const Tensor& terms, int64_t i, const Tensor& statistics) const;
  absl::Status ExchangeKl(const Tensor& terms) const;

  struct Exchanged {
    float loss = 0;                                  // the mean over micro-batches and ranks
    std::optional<PreferenceStatistics> preference;  // likewise, with pairs
    std::optional<ExpertLoad> experts;               // in a step of a model with experts
    std::vector<int64_t> expert_counts;              // the sums over ranks that it is made of
    bool flag = false;                               // true if it is set on any rank
    std::vector<double> waited;                      // by rank
  };
  // Waits for the device.
  absl::StatusOr<Exchanged> ReadExchanged() const;

 private:
  static Tensor OrNone(const std::vector<Tensor>& tensors, int64_t i) {
    return tensors.empty() ? Tensor() : tensors[static_cast<size_t>(i)];
  }

  // The number of experts, over all layers. Each has a count in `exchanged_`.
  int64_t AllExperts() const;
  // Copies `numbers` of each micro-batch into `exchanged`, and exchanges that.
  absl::Status Exchange(const Tensor& mine, int64_t numbers, const Tensor& exchanged,
                        absl::string_view label) const;

  Communicator* world_ = nullptr;
  Device* device_ = nullptr;
  bool is_deterministic_ = false;
  int ranks_per_data_ = 1;
  std::vector<Tensor> tokens_;
  std::vector<Tensor> targets_;
  std::vector<Tensor> starts_;  // empty if batches have no starts
  std::vector<Tensor> pairs_;
  std::vector<Tensor> reference_;
  std::vector<Tensor> labels_;
  std::vector<Tensor> teacher_ids_;
  std::vector<Tensor> teacher_log_probs_;
  bool has_references_ = false;
  Tensor kl_;
  int64_t numbers_ = 1;  // exchanged per micro-batch: the loss, or PreferenceStatistics::kCount
  Tensor divisor_;
  std::vector<int64_t> experts_;  // by layer
  // fp32 [losses * numbers_ + experts of all layers + ranks + 1]: the losses and the tokens of each
  // expert (zeros at first), the seconds each rank waited, the flag.
  Tensor exchanged_;
};

}  // namespace zeroth
