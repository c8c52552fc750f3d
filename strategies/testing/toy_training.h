// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Gradients for toy models: a pattern whose reduction is known exactly, and random ones that give
// every error away.

#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {

// Means of the pattern over any number of ranks need more than float's precision only at world
// sizes that are not powers of two.
inline constexpr double kMeanTolerance = 1e-6;

// [begin, end) summed in fp32 along the tree of core/comm/communicator.h.
float TreeSum(const std::vector<float>& values, size_t begin, size_t end);

// Small integers of either sign.
float ElementPattern(int64_t element);
// Rank r contributes (r + 1) times the pattern.
ToyGradient PatternGradient(int rank);
// The contributions of all ranks together, `times` times.
ToyFormula PatternSum(int world_size, float times = 1);
ToyFormula PatternMean(int world_size, float times = 1);

// A gradient of random bits that depends on the parameter's value, so that a stale or overwritten
// buffer anywhere shows in every later step.
ToyGradient RandomGradient(int rank, int step);
// Steps on random gradients; also fails if anything is left over after one.
absl::Status ToyTrain(Sharding& sharding, int rank, int steps, ToyStep step = {});

// kToyMicroBatchSteps steps on random gradients, with the same check; `sync_each` as
// Scheduler::SetRequiresGradientSync.
inline constexpr int kToyMicroBatchSteps = 2;
absl::Status ToyTrainInMicroBatches(Sharding& sharding, int rank, int micro_batches,
                                    bool sync_each);

// The parameters at the end of a run, which must be the same on all ranks. Thread-safe.
class SharedResult {
 public:
  // Collective. An error if another rank has added something else.
  absl::Status Add(Sharding& sharding);
  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b);
  // Once all ranks have ended.
  const std::vector<float>& values() const { return values_; }

 private:
  std::mutex mutex_;
  std::vector<float> values_;
};

}  // namespace zeroth
