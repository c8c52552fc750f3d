// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Ranks with one hand-fed parameter set, for the optimizer's tests.

#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth::testing {

// How a set of parameters is sharded.
struct Layout {
  std::string strategy = "full_shard";
  int world_size = 1;
  int shard_size = 0;
  int64_t min_shard_numel = 0;
  MixedPrecision precision = {};
  int64_t block_numel = 1;
  OffloadOptions offload = {};
  bool optimizer_over_world = false;
};

inline std::vector<Layout> AllLayouts() {
  std::vector<Layout> layouts;
  for (const int world_size : {1, 2, 3, 4, 8}) {
    for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
      layouts.push_back({strategy, world_size, 0, 0});
    }
    layouts.push_back({"full_shard", world_size, 0, 8});
    for (const char* strategy : {"hybrid_shard", "shard_optimizer"}) {
      if (world_size % 2 == 0) layouts.push_back({strategy, world_size, 2, 0});
    }
    for (const int shard_size : {1, 2}) {
      if (world_size <= shard_size || world_size % shard_size != 0) continue;
      layouts.push_back({"hybrid_shard", world_size, shard_size, shard_size == 1 ? 8 : 0});
      layouts.back().optimizer_over_world = true;
    }
  }
  return layouts;
}

// One rank's parameters under test: "matrix" (decays) and "vector" (does not), in one unit.
struct Rank {
  Communicator& world;
  std::shared_ptr<Device> device;
  std::unique_ptr<Kernels> kernels;
  Parameter matrix;
  Parameter vector;
  std::unique_ptr<Sharding> sharding;

  Rank(Communicator& communicator, const Shape& matrix_shape, const Shape& vector_shape)
      : world(communicator), matrix("matrix", matrix_shape), vector("vector", vector_shape) {}

  absl::Status Open(const Layout& layout) {
    ZEROTH_ASSIGN_OR_RETURN(device, DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(kernels, KernelRegistry::Create(*device, device->compute_stream()));
    ShardingOptions options;
    options.strategy = layout.strategy;
    options.strategy_options.shard_size = layout.shard_size;
    options.strategy_options.shard_optimizer_over_world = layout.optimizer_over_world;
    options.min_shard_numel = layout.min_shard_numel;
    options.mixed_precision = layout.precision;
    options.block_numel = layout.block_numel;
    options.offload = layout.offload;
    UnitSpec unit;
    unit.name = "unit";
    unit.parameters = {&matrix, &vector};
    ZEROTH_ASSIGN_OR_RETURN(sharding, Sharding::Create(world, *device, options, {unit}));
    return absl::OkStatus();
  }

  absl::Status Load(const std::vector<float>& matrix_values,
                    const std::vector<float>& vector_values) {
    return sharding->Load([&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
      const std::vector<float>& values = &parameter == &matrix ? matrix_values : vector_values;
      std::copy_n(values.begin() + begin, out.size(), out.begin());
      return absl::OkStatus();
    });
  }

  // Runs a forward and a backward whose gradient, on every rank, is the given one.
  absl::Status Backward(const std::vector<float>& matrix_grad,
                        const std::vector<float>& vector_grad) {
    Scheduler& scheduler = sharding->scheduler();
    Unit& unit = *sharding->FindUnit("unit");
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(unit));
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot m, matrix.TakeGradient());
    std::copy(matrix_grad.begin(), matrix_grad.end(), m.tensor.data<float>());
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot v, vector.TakeGradient());
    std::copy(vector_grad.begin(), vector_grad.end(), v.tensor.data<float>());
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(unit));
    return scheduler.FinishBackward();
  }

  // Reads the whole values of both parameters.
  absl::Status Read(std::vector<float>& matrix_values, std::vector<float>& vector_values) {
    return sharding->VisitFull([&](const Parameter& parameter, int64_t,
                                   absl::Span<const float> values) {
      (&parameter == &matrix ? matrix_values : vector_values).assign(values.begin(), values.end());
      return absl::OkStatus();
    });
  }
};

// Whole values of both parameters after some training.
struct Trained {
  std::vector<float> matrix;
  std::vector<float> vector;

  bool SameBits(const Trained& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
    };
    return same(matrix, other.matrix) && same(vector, other.vector);
  }
};

// Calls `train` on every rank of `layout`, with its parameters open. Returns rank 0's result.
inline Trained TrainRanks(const Layout& layout, const Shape& matrix_shape,
                          const Shape& vector_shape,
                          const std::function<absl::Status(Rank&)>& train) {
  Trained trained;
  const absl::Status status =
      RunLocalRanks(layout.world_size, [&](Communicator& world) -> absl::Status {
        Rank rank(world, matrix_shape, vector_shape);
        ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
        ZEROTH_RETURN_IF_ERROR(train(rank));
        Trained mine;
        ZEROTH_RETURN_IF_ERROR(rank.Read(mine.matrix, mine.vector));
        if (world.rank() == 0) trained = mine;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return trained;
}

}  // namespace zeroth::testing
