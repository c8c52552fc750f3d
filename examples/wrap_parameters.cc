// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shards parameters of one's own, without zeroth's nn: four ranks fit a line to samples, with the
// gradients written by hand. The README shows what stands between the two rulers.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/strategies/sharding.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int kInputs = 64;
constexpr int kSteps = 400;
// y = sum of x_i * TrueWeight(i) + kTrueBias.
constexpr float kTrueBias = 3.0f;
float TrueWeight(int64_t i) { return i % 2 == 0 ? 1.0f : -2.0f; }

struct Sample {
  std::array<float, kInputs> x;
  float y;
};

// A sample of its own for every step and rank.
Sample Draw(int step, int rank) {
  Sample sample{};
  const uint64_t first = static_cast<uint64_t>(step) * kInputs;
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

// ---------------------------------------------------------------------------------- README: begin
absl::Status Train(Communicator& world) {
  ZEROTH_ASSIGN_OR_RETURN(auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(auto kernels, KernelRegistry::Create(*device, device->compute_stream()));

  // Your parameters: names, shapes and first values. Their memory is the sharding's.
  Parameter weight("weight", Shape({kInputs}), Initializer::Normal(0.02f));
  Parameter bias("bias", Shape({}));
  ShardingOptions options;
  options.strategy = "full_shard";
  ZEROTH_ASSIGN_OR_RETURN(
      auto sharding, Sharding::Create(world, *device, options, {{"line", {&weight, &bias}}}));
  ZEROTH_RETURN_IF_ERROR(sharding->Initialize(/*seed=*/1));
  ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*sharding, *kernels, AdamWOptions()));

  Unit& line = *sharding->FindUnit("line");
  Scheduler& scheduler = sharding->scheduler();
  for (int step = 0; step < kSteps; ++step) {
    const Sample sample = Draw(step, world.rank());

    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(line));  // gathers: weight and bias are whole
    float error = *bias.data().data<float>() - sample.y;
    const float* w = weight.data().data<float>();
    for (size_t i = 0; i < kInputs; ++i) error += w[i] * sample.x[i];
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(line));  // frees all but this rank's shard

    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(line));  // of the loss error * error / 2
    ZEROTH_ASSIGN_OR_RETURN(const auto dweight, weight.TakeGradient());
    ZEROTH_ASSIGN_OR_RETURN(const auto dbias, bias.TakeGradient());
    for (size_t i = 0; i < kInputs; ++i) dweight.tensor.data<float>()[i] = error * sample.x[i];
    *dbias.tensor.data<float>() = error;
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(line));  // starts to average over the ranks

    ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());  // gradient shards are ready
    ZEROTH_RETURN_IF_ERROR(adamw->Step(/*lr=*/0.1 * (kSteps - step) / kSteps));
    ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
  }
  return sharding->VisitFull(CheckFit);  // gathers once more, to look at the result
}
// ------------------------------------------------------------------------------------ README: end

}  // namespace

int main() {
  const absl::Status status = RunLocalRanks(/*world_size=*/4, Train);
  std::cout << "four ranks: " << status << "\n";
  return status.ok() ? 0 : 1;
}
