// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A project of its own that uses Zeroth as a library: a classifier with arithmetic written here,
// trained under full_shard on four ranks. Two layers, two units; nothing of zeroth's nn.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/clip_grad_norm.h"
#include "zeroth/strategies/sharding.h"

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

// Where a parameter's gradient goes; zeroed, since the loops below add sample after sample.
absl::StatusOr<float*> ZeroedGradient(zeroth::Parameter& parameter) {
  ZEROTH_ASSIGN_OR_RETURN(const zeroth::Parameter::GradientSlot slot, parameter.TakeGradient());
  float* grad = slot.tensor.data<float>();
  std::fill(grad, grad + parameter.numel(), 0.0f);
  return grad;
}

// Forward and backward of one batch between the scheduler's hooks; the mean loss of this rank.
absl::StatusOr<double> ForwardBackward(Model& model, zeroth::Sharding& sharding,
                                       const std::vector<Sample>& batch) {
  zeroth::Scheduler& scheduler = sharding.scheduler();
  zeroth::Unit& layer1 = *sharding.FindUnit("layer1");
  zeroth::Unit& layer2 = *sharding.FindUnit("layer2");
  std::vector<std::array<float, kHidden>> hidden(batch.size());
  std::vector<float> dlogit(batch.size());
  double loss = 0;

  ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(layer1));
  const float* w1 = model.w1.data().data<float>();
  const float* b1 = model.b1.data().data<float>();
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t h = 0; h < kHidden; ++h) {
      hidden[i][h] = std::tanh(batch[i].x[0] * w1[h] + batch[i].x[1] * w1[kHidden + h] + b1[h]);
    }
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(layer1));

  ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(layer2));
  for (size_t i = 0; i < batch.size(); ++i) {
    float logit = *model.b2.data().data<float>();
    for (size_t h = 0; h < kHidden; ++h) logit += hidden[i][h] * model.w2.data().data<float>()[h];
    const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(logit)));
    loss -= std::log(std::max(batch[i].label > 0 ? p : 1 - p, 1e-12)) / kBatch;
    dlogit[i] = (static_cast<float>(p) - batch[i].label) / kBatch;
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(layer2));

  ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(layer2));
  ZEROTH_ASSIGN_OR_RETURN(float* dw2, ZeroedGradient(model.w2));
  ZEROTH_ASSIGN_OR_RETURN(float* db2, ZeroedGradient(model.b2));
  for (size_t i = 0; i < batch.size(); ++i) {
    *db2 += dlogit[i];
    for (size_t h = 0; h < kHidden; ++h) {
      const float value = hidden[i][h];
      dw2[h] += dlogit[i] * value;
      // From here on `hidden` holds the gradient before the tanh.
      hidden[i][h] = dlogit[i] * model.w2.data().data<float>()[h] * (1 - value * value);
    }
  }
  ZEROTH_RETURN_IF_ERROR(
      scheduler.AfterBackward(layer2));  // its reduction runs beside what follows

  ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(layer1));
  ZEROTH_ASSIGN_OR_RETURN(float* dw1, ZeroedGradient(model.w1));
  ZEROTH_ASSIGN_OR_RETURN(float* db1, ZeroedGradient(model.b1));
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t h = 0; h < kHidden; ++h) {
      dw1[h] += batch[i].x[0] * hidden[i][h];
      dw1[kHidden + h] += batch[i].x[1] * hidden[i][h];
      db1[h] += hidden[i][h];
    }
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(layer1));
  ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  return loss;
}

absl::Status TrainRank(zeroth::Communicator& world) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<zeroth::Device> device,
                          zeroth::DeviceRegistry::Create("cpu", zeroth::DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<zeroth::Kernels> kernels,
                          zeroth::KernelRegistry::Create(*device, device->compute_stream()));
  Model model;
  zeroth::ShardingOptions options;
  options.strategy = "full_shard";
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<zeroth::Sharding> sharding,
                          zeroth::Sharding::Create(world, *device, options, model.Units()));
  ZEROTH_RETURN_IF_ERROR(sharding->Initialize(/*seed=*/7));
  zeroth::AdamWOptions adamw_options;
  adamw_options.weight_decay = 0;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<zeroth::AdamW> adamw,
                          zeroth::AdamW::Create(*sharding, *kernels, adamw_options));
  double first = 0;
  double last = 0;
  for (int step = 0; step < kSteps; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const double loss,
                            ForwardBackward(model, *sharding, DrawBatch(step, world.rank())));
    ZEROTH_ASSIGN_OR_RETURN(const zeroth::ClipResult clip,
                            zeroth::ClipGradNorm(*sharding, *kernels, 1.0));
    ZEROTH_RETURN_IF_ERROR(adamw->Step(/*lr=*/0.02, clip.scale));
    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
    if (step < 10) first += loss / 10;
    if (step >= kSteps - 10) last += loss / 10;
  }
  if (world.rank() == 0) {
    std::printf("full_shard over %d ranks, %.0f%% of the parameters on each: loss %.3f -> %.3f\n",
                world.size(), 100 * sharding->LocalShardingRatio(), first, last);
  }
  // A rank sees only its own samples, so each judges for itself.
  if (last < 0.5 * first) return absl::OkStatus();
  return absl::InternalError(
      "the loss of the last ten steps is not below half that of the first ten: " +
      std::to_string(first) + " -> " + std::to_string(last));
}

}  // namespace

int main() {
  zeroth::LaunchOptions options;
  options.world_size = kRanks;
  const absl::Status status = zeroth::LauncherRegistry::Launch("local", options, TrainRank);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
