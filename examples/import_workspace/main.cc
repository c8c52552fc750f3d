// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A project of its own that uses Zeroth as a library: a classifier with arithmetic written here,
// trained under full_shard on four ranks. Two layers, two units; nothing of zeroth's nn.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"

namespace {

constexpr int kRanks = 4;
constexpr int kInputs = 2;
constexpr int kHidden = 32;
constexpr int kBatch = 32;  // samples of a rank in a step
constexpr int kSteps = 300;

struct Sample {
  std::array<float, kInputs> x;
  float label;  // 1 inside the unit circle, 0 outside
};

std::vector<Sample> DrawBatch(int step, int rank) {
  const zeroth::CounterRng rng(static_cast<uint64_t>(rank), "samples");
  std::vector<Sample> batch(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    const uint64_t index =
        (static_cast<uint64_t>(step) * kBatch + static_cast<uint64_t>(i)) * kInputs;
    Sample& sample = batch[static_cast<size_t>(i)];
    for (int j = 0; j < kInputs; ++j) {
      sample.x[static_cast<size_t>(j)] =
          3.0f * rng.Uniform(index + static_cast<uint64_t>(j)) - 1.5f;
    }
    sample.label = sample.x[0] * sample.x[0] + sample.x[1] * sample.x[1] < 1.0f ? 1.0f : 0.0f;
  }
  return batch;
}

// The model: hidden = tanh(x W1 + b1), logit = hidden . w2 + b2. Each layer is a unit.
struct Model {
  zeroth::Parameter w1{"w1", zeroth::Shape({kInputs, kHidden}), zeroth::Initializer::Normal(1.0f)};
  zeroth::Parameter b1{"b1", zeroth::Shape({kHidden}), zeroth::Initializer::Normal(0.5f)};
  zeroth::Parameter w2{"w2", zeroth::Shape({kHidden}), zeroth::Initializer::Normal(0.2f)};
  zeroth::Parameter b2{"b2", zeroth::Shape({})};

  std::vector<zeroth::UnitSpec> Units() { return {{"layer1", {&w1, &b1}}, {"layer2", {&w2, &b2}}}; }
};

// Where to add a parameter's gradient.
absl::StatusOr<float*> GradientOf(zeroth::UnitPass& pass, zeroth::Parameter& parameter) {
  ZEROTH_ASSIGN_OR_RETURN(const zeroth::Tensor gradient, pass.Gradient(parameter));
  return gradient.data<float>();
}

// Forward and backward of one batch; the mean loss of this rank.
absl::StatusOr<double> ForwardBackward(Model& model, zeroth::TrainingStep& step,
                                       const std::vector<Sample>& batch) {
  std::vector<std::array<float, kHidden>> hidden(batch.size());
  std::vector<float> dlogit(batch.size());
  double loss = 0;
  {
    ZEROTH_ASSIGN_OR_RETURN(zeroth::UnitPass pass, step.Forward("layer1"));
    const float* w1 = model.w1.data().data<float>();
    const float* b1 = model.b1.data().data<float>();
    for (size_t i = 0; i < batch.size(); ++i) {
      for (size_t h = 0; h < kHidden; ++h) {
        hidden[i][h] = std::tanh(batch[i].x[0] * w1[h] + batch[i].x[1] * w1[kHidden + h] + b1[h]);
      }
    }
    ZEROTH_RETURN_IF_ERROR(pass.End());
  }
  {
    ZEROTH_ASSIGN_OR_RETURN(zeroth::UnitPass pass, step.Forward("layer2"));
    const float* w2 = model.w2.data().data<float>();
    for (size_t i = 0; i < batch.size(); ++i) {
      float logit = *model.b2.data().data<float>();
      for (size_t h = 0; h < kHidden; ++h) logit += hidden[i][h] * w2[h];
      const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(logit)));
      loss -= std::log(std::max(batch[i].label > 0 ? p : 1 - p, 1e-12)) / kBatch;
      dlogit[i] = step.loss_factor() * (static_cast<float>(p) - batch[i].label) / kBatch;
    }
    ZEROTH_RETURN_IF_ERROR(pass.End());
  }
  {
    ZEROTH_ASSIGN_OR_RETURN(zeroth::UnitPass pass, step.Backward("layer2"));
    ZEROTH_ASSIGN_OR_RETURN(float* dw2, GradientOf(pass, model.w2));
    ZEROTH_ASSIGN_OR_RETURN(float* db2, GradientOf(pass, model.b2));
    const float* w2 = model.w2.data().data<float>();
    for (size_t i = 0; i < batch.size(); ++i) {
      *db2 += dlogit[i];
      for (size_t h = 0; h < kHidden; ++h) {
        const float value = hidden[i][h];
        dw2[h] += dlogit[i] * value;
        // From here on `hidden` holds the gradient before the tanh.
        hidden[i][h] = dlogit[i] * w2[h] * (1 - value * value);
      }
    }
    ZEROTH_RETURN_IF_ERROR(pass.End());  // its reduction runs beside what follows
  }
  ZEROTH_ASSIGN_OR_RETURN(zeroth::UnitPass pass, step.Backward("layer1"));
  ZEROTH_ASSIGN_OR_RETURN(float* dw1, GradientOf(pass, model.w1));
  ZEROTH_ASSIGN_OR_RETURN(float* db1, GradientOf(pass, model.b1));
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t h = 0; h < kHidden; ++h) {
      dw1[h] += batch[i].x[0] * hidden[i][h];
      dw1[kHidden + h] += batch[i].x[1] * hidden[i][h];
      db1[h] += hidden[i][h];
    }
  }
  ZEROTH_RETURN_IF_ERROR(pass.End());
  ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
  return loss;
}

absl::Status Train(zeroth::Rank& rank) {
  Model model;
  ZEROTH_ASSIGN_OR_RETURN(const auto sharded,
                          zeroth::FullyShard(rank, model.Units(), {.strategy = "full_shard"}));
  ZEROTH_ASSIGN_OR_RETURN(const auto adamw,
                          zeroth::AdamW::Create(*sharded, {.lr = 0.02, .weight_decay = 0}));
  double first = 0;
  double last = 0;
  for (int i = 0; i < kSteps; ++i) {
    zeroth::TrainingStep step(*sharded);
    ZEROTH_ASSIGN_OR_RETURN(const double loss,
                            ForwardBackward(model, step, DrawBatch(i, rank.index())));
    ZEROTH_RETURN_IF_ERROR(step.Update(*adamw, {.clip_grad_norm = 1.0}));
    if (i < 10) first += loss / 10;
    if (i >= kSteps - 10) last += loss / 10;
  }
  if (rank.index() == 0) {
    std::printf("full_shard over %d ranks, %.0f%% of the parameters on each: loss %.3f -> %.3f\n",
                rank.world_size(), 100 * sharded->sharding().LocalShardingRatio(), first, last);
  }
  // A rank sees only its own samples, so each judges for itself.
  if (last < 0.5 * first) return absl::OkStatus();
  return absl::InternalError(
      "the loss of the last ten steps is not below half that of the first ten: " +
      std::to_string(first) + " -> " + std::to_string(last));
}

}  // namespace

int main() { return zeroth::RunRanks(kRanks, Train); }
