// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A separate project that uses Zeroth as a library: four ranks fit a line to points, with both of
// its parameters sharded by full_shard. The gradient is written by hand; models and layers work in
// the same way (examples/train_module.cc).

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int kSteps = 400;
constexpr float kTruth[] = {2.0f, -1.0f};  // y = 2 x - 1

absl::Status Train(Rank& rank) {
  Parameter line("line", Shape({2}), Initializer::Normal(1.0f));
  ZEROTH_ASSIGN_OR_RETURN(auto sharded,
                          FullyShard(rank, {{"line", {&line}}}, {.strategy = "full_shard"}));
  ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*sharded, {.weight_decay = 0}));
  const CounterRng rng(static_cast<uint64_t>(rank.index()), "points");  // each rank has its own
  for (int i = 0; i < kSteps; ++i) {
    const float x = 2.0f * rng.Uniform(static_cast<uint64_t>(i)) - 1.0f;
    TrainingStep step(*sharded);
    ZEROTH_ASSIGN_OR_RETURN(UnitPass forward, step.Forward("line"));  // all-gathers the parameters
    const float* const values = line.data().data<float>();
    const float error = values[0] * x + values[1] - (kTruth[0] * x + kTruth[1]);
    ZEROTH_RETURN_IF_ERROR(forward.End());  // frees all but this rank's shard
    ZEROTH_ASSIGN_OR_RETURN(UnitPass backward, step.Backward("line"));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, backward.Gradient(line));
    gradient.data<float>()[0] += step.loss_factor() * error * x;
    gradient.data<float>()[1] += step.loss_factor() * error;
    ZEROTH_RETURN_IF_ERROR(backward.End());  // starts the reduce-scatter
    ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
    ZEROTH_RETURN_IF_ERROR(step.Update(*adamw, {.lr = 0.1 * (kSteps - i) / kSteps}));
  }
  return sharded->sharding().VisitFull(
      [&](const Parameter&, int64_t, absl::Span<const float> values) -> absl::Status {
        if (rank.index() == 0) {
          std::printf("full_shard over %d ranks: y = %.2f x + %.2f\n", rank.world_size(),
                      static_cast<double>(values[0]), static_cast<double>(values[1]));
        }
        if (std::abs(values[0] - kTruth[0]) + std::abs(values[1] - kTruth[1]) < 0.1f) {
          return absl::OkStatus();
        }
        return absl::InternalError("the line is not y = 2 x - 1");
      });
}

}  // namespace

int main() { return RunRanks(/*world_size=*/4, Train); }
