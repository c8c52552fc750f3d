// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For the tests of the folder above: a rank's training state, every element of which is known in
// advance.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth::testing {

// How a state is spread.
struct Spread {
  std::string strategy;
  int world_size = 1;
  int shard_size = 0;
  int64_t min_shard_numel = 0;
  DType param_dtype = DType::kFloat32;
  bool offload = false;                 // all of it
  DType state_dtype = DType::kFloat32;  // of moments
  bool optimizer_over_world = false;
  DType master_dtype = DType::kFloat32;
  LayoutKind layout = LayoutKind::kFlat;
  int64_t min_8bit_numel = 0;

  std::string name() const {
    return absl::StrCat(strategy, "-", world_size, "-", shard_size, "-", min_shard_numel, "-",
                        DTypeName(param_dtype), offload ? "-offloaded-" : "-",
                        DTypeName(state_dtype), optimizer_over_world ? "-over-world" : "",
                        "-masters-", DTypeName(master_dtype),
                        layout == LayoutKind::kRows ? "-rows" : "",
                        min_8bit_numel > 0 ? absl::StrCat("-fp32-below-", min_8bit_numel) : "");
  }
};

inline Spread OverWorld(int world_size, int shard_size, int64_t min_shard_numel = 0) {
  Spread spread{"hybrid_shard", world_size, shard_size, min_shard_numel};
  spread.optimizer_over_world = true;
  return spread;
}

// Every strategy and world size, with small parameters replicated and in bf16 now and then.
inline std::vector<Spread> AllSpreads() {
  return {{"no_shard", 1},         {"no_shard", 3},
          {"no_shard", 4},         {"shard_optimizer", 2},
          {"shard_optimizer", 8},  {"shard_grad_op", 3},
          {"shard_grad_op", 4},    {"full_shard", 1},
          {"full_shard", 2},       {"full_shard", 3, 0, 8},
          {"full_shard", 4},       {"full_shard", 8, 0, 40, DType::kBFloat16},
          {"hybrid_shard", 4, 2},  {"hybrid_shard", 8, 4, 8},
          {"shard_grad_op", 6, 3}, {"shard_optimizer", 4, 2, 8},
          OverWorld(4, 2),         OverWorld(6, 3, 8)};
}

// Units of random shapes, some parameters empty or scalars, most smaller than a world.
inline std::vector<ToyUnit> RandomUnits(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<ToyUnit> units = AwkwardUnits();
  for (int i = 0; i < 3; ++i) {
    ToyUnit unit{absl::StrCat("r.", i), {}};
    for (uint32_t k = 0, count = 1 + random() % 4; k < count; ++k) {
      std::vector<int64_t> dims(random() % 4);
      for (int64_t& dim : dims) dim = static_cast<int64_t>(random() % 9);
      unit.shapes.push_back(Shape(dims));
    }
    units.push_back(std::move(unit));
  }
  return units;
}

// Any finite bits, different in every element of every state.
inline float ElementOf(const std::string& parameter, const std::string& state, int64_t element,
                       int version) {
  const uint64_t hash = ChecksumOf(absl::StrCat(parameter, "/", state, "/", element, "/", version));
  const auto bits = static_cast<uint32_t>(hash);
  return (bits >> 23 & 0xff) == 0xff ? static_cast<float>(element) : std::bit_cast<float>(bits);
}

// A toy model under a spread, with an optimizer.
struct TestState {
  std::unique_ptr<ToyModel> model;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Sharding> sharding;
  std::unique_ptr<AdamW> optimizer;

  static absl::StatusOr<TestState> Create(Communicator& world, Device& device, const Spread& spread,
                                          const std::vector<ToyUnit>& units,
                                          bool freeze_first = true) {
    std::set<std::string> frozen;
    if (freeze_first) frozen.insert(absl::StrCat(units[0].name, ".0"));
    return Create(world, device, spread, units, frozen);
  }
  static absl::StatusOr<TestState> Create(Communicator& world, Device& device, const Spread& spread,
                                          const std::vector<ToyUnit>& units,
                                          const std::set<std::string>& frozen) {
    TestState state;
    state.model = std::make_unique<ToyModel>(units);
    for (size_t unit = 0; unit < units.size(); ++unit) {
      for (size_t i = 0; i < units[unit].shapes.size(); ++i) {
        Parameter& parameter = state.model->parameter(unit, i);
        if (frozen.count(parameter.name()) > 0) parameter.set_requires_grad(false);
      }
    }
    ShardingOptions options;
    options.strategy = spread.strategy;
    options.strategy_options.shard_size = spread.shard_size;
    options.strategy_options.shard_optimizer_over_world = spread.optimizer_over_world;
    options.min_shard_numel = spread.min_shard_numel;
    options.mixed_precision.param_dtype = spread.param_dtype;
    options.mixed_precision.master_dtype = spread.master_dtype;
    options.layout = spread.layout;
    options.offload.parameters = spread.offload;
    options.offload.gradients = spread.offload;
    options.offload.optimizer = spread.offload;
    options.offload.chunk_numel = 1024;
    options.block_numel = RequiredBlockNumel(spread.state_dtype);
    ZEROTH_ASSIGN_OR_RETURN(state.sharding,
                            Sharding::Create(world, device, options, state.model->Specs()));
    ZEROTH_ASSIGN_OR_RETURN(state.kernels, KernelRegistry::Create(device, device.compute_stream()));
    AdamWOptions adamw;
    adamw.state_dtype = spread.state_dtype;
    adamw.min_8bit_numel = spread.min_8bit_numel;
    ZEROTH_ASSIGN_OR_RETURN(state.optimizer, AdamW::Create(*state.sharding, *state.kernels, adamw));
    return state;
  }

  // Calls visit(parameter, state, element, bytes of the element) for everything that this rank
  // holds, and keeps what that writes.
  template <typename Visit>
  void ForEach(const Visit& visit) {
    std::vector<ShardState> states = optimizer->states();
    for (const Unit* unit : sharding->units()) {
      for (int i = 0; i < unit->segment_count(); ++i) {
        states.push_back({unit, i, "param", unit->ShardState(i)});
      }
    }
    for (const ShardState& state : states) {
      // Through host memory, since the shard may be offloaded.
      Device& device = state.unit->device();
      const int64_t numel = state.shard.numel();
      const size_t size = SizeOf(state.shard.dtype());
      std::vector<uint8_t> bytes(static_cast<size_t>(numel) * size);
      absl::Status status = CopyStateToHost(device, state.shard, 0, numel, bytes.data());
      for (const int index : ParametersOf(state)) {
        const ShardLayout::Piece piece = state.unit->PieceOf(index);
        for (int64_t i = 0; i * state.block < piece.numel(); ++i) {
          visit(
              state.unit->parameters()[static_cast<size_t>(index)]->name(), state.name,
              piece.begin / state.block + i,
              absl::MakeSpan(bytes).subspan(
                  static_cast<size_t>((piece.shard_offset - state.begin) / state.block + i) * size,
                  size));
        }
      }
      status.Update(CopyStateFromHost(device, bytes.data(), state.shard, 0, numel));
      ZEROTH_CHECK(status.ok());
    }
  }

  void Fill(int version) {
    ForEach([&](const std::string& parameter, const std::string& state, int64_t element,
                absl::Span<uint8_t> bytes) {
      const float value = ElementOf(parameter, state, element, version);
      std::memcpy(bytes.data(), &value, bytes.size());
    });
  }

  // Internal unless every element has the bits of Fill(version).
  absl::Status Check(int version) {
    absl::Status status;
    ForEach([&](const std::string& parameter, const std::string& state, int64_t element,
                absl::Span<uint8_t> bytes) {
      const float expected = ElementOf(parameter, state, element, version);
      if (std::memcmp(bytes.data(), &expected, bytes.size()) == 0) return;
      status.Update(absl::InternalError(absl::StrCat(state, " of ", parameter, ", element ",
                                                     element, ": not the bits of ", expected)));
    });
    return status;
  }
};

}  // namespace zeroth::testing
