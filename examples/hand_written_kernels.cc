// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shards parameters without nn and autograd: four ranks fit a linear function to samples. The
// gradients are written by hand and summed over two micro-batches in each step.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int kInputs = 64;
constexpr int kSteps = 400;
constexpr int kMicroBatches = 2;
// y = sum of x_i * TrueWeight(i) + kTrueBias.
constexpr float kTrueBias = 3.0f;
float TrueWeight(int64_t i) { return i % 2 == 0 ? 1.0f : -2.0f; }

struct Sample {
  std::array<float, kInputs> x;
  float y;
};

// Draws a different sample for every micro-batch and rank.
Sample Draw(int micro_batch, int rank) {
  Sample sample{};
  const uint64_t first = static_cast<uint64_t>(micro_batch) * kInputs;
  CounterRng(static_cast<uint64_t>(rank), "x").FillNormal(first, 1.0f, absl::MakeSpan(sample.x));
  sample.y = kTrueBias;
  for (int i = 0; i < kInputs; ++i) sample.y += TrueWeight(i) * sample.x[static_cast<size_t>(i)];
  return sample;
}

absl::Status CheckFit(const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t element = begin + static_cast<int64_t>(i);
    const float truth = parameter.name() == "bias" ? kTrueBias : TrueWeight(element);
    if (std::abs(values[i] - truth) < 0.05f) continue;
    return absl::InternalError(absl::StrCat(parameter.name(), "[", element, "] = ", values[i],
                                            ", expected ", truth, " within 0.05"));
  }
  return absl::OkStatus();
}

absl::Status Train(Rank& rank) {
  Parameter weight("weight", Shape({kInputs}), Initializer::Normal(0.02f));
  Parameter bias("bias", Shape({}));
  ZEROTH_ASSIGN_OR_RETURN(
      auto sharded, FullyShard(rank, {{"line", {&weight, &bias}}}, {.strategy = "full_shard"}));
  ZEROTH_ASSIGN_OR_RETURN(auto optimizer, AdamW::Create(*sharded, {}));

  for (int i = 0; i < kSteps; ++i) {
    TrainingStep step(*sharded, {.micro_batches = kMicroBatches});
    for (int j = 0; j < kMicroBatches; ++j) {
      const Sample sample = Draw(i * kMicroBatches + j, rank.index());

      ZEROTH_ASSIGN_OR_RETURN(UnitPass forward, step.Forward("line"));  // gathers weight and bias
      float error = *bias.data().data<float>() - sample.y;
      const float* w = weight.data().data<float>();
      for (size_t k = 0; k < kInputs; ++k) error += w[k] * sample.x[k];
      ZEROTH_RETURN_IF_ERROR(forward.End());  // frees all but this rank's shard

      // The gradient of this micro-batch's share of the loss, error * error / 2.
      const float factor = error * step.loss_factor();
      ZEROTH_ASSIGN_OR_RETURN(UnitPass backward, step.Backward("line"));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor dweight, backward.Gradient(weight));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor dbias, backward.Gradient(bias));
      for (size_t k = 0; k < kInputs; ++k) dweight.data<float>()[k] += factor * sample.x[k];
      *dbias.data<float>() += factor;
      ZEROTH_RETURN_IF_ERROR(backward.End());  // starts to average over the ranks
      ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
    }
    ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer, {.lr = 0.1 * (kSteps - i) / kSteps}));
  }
  return sharded->sharding().VisitFull(CheckFit);  // gathers once more, to check the result
}

}  // namespace

int main() { return RunRanks(/*world_size=*/4, Train); }
