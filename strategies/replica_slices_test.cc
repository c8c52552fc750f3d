// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/replica_slices.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

// A state with an element for each block of the parameter, whose blocks are larger than those of
// the layout.
TEST(ReplicaSlicesTest, SlicesHaveWholeBlocksOfTheState) {
  constexpr int64_t kBlock = 4;
  for (const int64_t numel : {1, 8, 15, 16, 17, 40, 41}) {
    SCOPED_TRACE(numel);
    EXPECT_EQ(RunToyRanks(
                  3,
                  [&](Communicator& world, Device& device) -> absl::Status {
                    Parameter parameter("p", Shape({numel}));
                    ShardingOptions options;
                    options.strategy = "no_shard";
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, Sharding::Create(world, device, options,
                                                                            {{"u", {&parameter}}}));
                    const Unit& unit = *sharding->units()[0];
                    const ReplicaSlices slices(unit, 0, 0, numel, kBlock);
                    const int64_t blocks = (numel + kBlock - 1) / kBlock;
                    std::vector<float> values(static_cast<size_t>(blocks), -1.0f);
                    for (const ShardLayout::Piece& part : slices.PartsToRead(unit.PieceOf(0))) {
                      ZEROTH_TOY_EXPECT(part.begin % kBlock == 0);
                      ZEROTH_TOY_EXPECT(part.end % kBlock == 0 || part.end == numel);
                      for (int64_t i = part.begin; i < part.end; i += kBlock) {
                        values[static_cast<size_t>(i / kBlock)] = static_cast<float>(i / kBlock);
                      }
                    }
                    ZEROTH_ASSIGN_OR_RETURN(const Tensor state,
                                            Tensor::Empty(device, Shape({blocks}), DType::kFloat32,
                                                          MemoryCategory::kOptimizer));
                    std::copy(values.begin(), values.end(), state.data<float>());
                    ZEROTH_RETURN_IF_ERROR(slices.Exchange(state, kBlock, "state"));
                    for (int64_t i = 0; i < blocks; ++i) {
                      ZEROTH_TOY_EXPECT(state.data<float>()[i] == static_cast<float>(i));
                    }
                    return absl::OkStatus();
                  }),
              absl::OkStatus());
  }
}

// More than passes through memory at once.
TEST(ReplicaSlicesTest, OffloadedStateIsExchangedInRounds) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          Parameter parameter("p", Shape({3'000'001}));
                          ShardingOptions options;
                          options.strategy = "no_shard";
                          options.offload.parameters = true;
                          ZEROTH_ASSIGN_OR_RETURN(
                              auto sharding,
                              Sharding::Create(world, device, options, {{"u", {&parameter}}}));
                          ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
                          return CheckShards(*sharding, ToyValue);
                        }),
            absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
