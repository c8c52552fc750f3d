// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/toy_training.h"

#include <cstring>

#include "absl/types/span.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

float TreeSum(const std::vector<float>& values, size_t begin, size_t end) {
  if (end - begin == 1) return values[begin];
  size_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return TreeSum(values, begin, begin + half) + TreeSum(values, begin + half, end);
}

float ElementPattern(int64_t element) { return static_cast<float>(element % 13 - 6); }

ToyGradient PatternGradient(int rank) {
  return [rank](const Parameter&, int64_t element, float) {
    return static_cast<float>(rank + 1) * ElementPattern(element);
  };
}

ToyFormula PatternSum(int world_size, float times) {
  const float ranks = static_cast<float>(world_size * (world_size + 1) / 2);
  return [ranks, times](const Parameter&, int64_t element) {
    return times * ranks * ElementPattern(element);
  };
}

ToyFormula PatternMean(int world_size, float times) {
  return [sum = PatternSum(world_size, times), world_size](const Parameter& parameter,
                                                           int64_t element) {
    return static_cast<float>(double{sum(parameter, element)} / world_size);
  };
}

ToyGradient RandomGradient(int rank, int step) {
  return [rank, step](const Parameter& parameter, int64_t element, float value) {
    const CounterRng rng(static_cast<uint64_t>(step * 100 + rank), parameter.name());
    return 0.01f * value + rng.Uniform(static_cast<uint64_t>(element)) - 0.5f;
  };
}

absl::Status ToyTrain(Sharding& sharding, int rank, int steps, ToyStep step) {
  for (int i = 0; i < steps; ++i) {
    step.gradient = RandomGradient(rank, i);
    ZEROTH_RETURN_IF_ERROR(RunToyStep(sharding, step));
    ZEROTH_RETURN_IF_ERROR(CheckAtRest(sharding));
  }
  return absl::OkStatus();
}

absl::Status ToyTrainInMicroBatches(Sharding& sharding, int rank, int micro_batches,
                                    bool sync_each) {
  Scheduler& scheduler = sharding.scheduler();
  for (int i = 0; i < kToyMicroBatchSteps; ++i) {
    for (int index = 0; index < micro_batches; ++index) {
      const bool last = index + 1 == micro_batches;
      scheduler.SetRequiresGradientSync(sync_each || last);
      scheduler.SetIsLastBackward(last);
      ToyStep step;
      step.gradient = RandomGradient(rank, 10 * i + index);
      ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, step));
      ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, step));
      ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
    }
    ZEROTH_RETURN_IF_ERROR(ToyUpdate(sharding, 0.5f));
    ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
    ZEROTH_RETURN_IF_ERROR(CheckAtRest(sharding));
  }
  return absl::OkStatus();
}

absl::Status SharedResult::Add(Sharding& sharding) {
  std::vector<float> all;
  ZEROTH_RETURN_IF_ERROR(
      sharding.VisitFull([&](const Parameter&, int64_t, absl::Span<const float> values) {
        all.insert(all.end(), values.begin(), values.end());
        return absl::OkStatus();
      }));
  std::lock_guard<std::mutex> lock(mutex_);
  if (values_.empty()) values_ = all;
  ZEROTH_TOY_EXPECT(SameBits(values_, all));
  return absl::OkStatus();
}

bool SharedResult::SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace zeroth
