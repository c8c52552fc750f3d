// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Flips one bit on one rank, in each kind of state that several ranks must hold alike.

#include "zeroth/optim/replica_check.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/testing/ranks.h"
#include "zeroth/optim/weight_ema.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using ::testing::HasSubstr;
using testing::Layout;
using ::testing::Not;
using testing::Rank;

const Shape kMatrix({7, 9});
const Shape kVector({5});

std::vector<float> Draw(const Shape& shape, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  CounterRng(5, name).FillNormal(0, 1, absl::MakeSpan(values));
  return values;
}

// Flips a bit of element 1 of a state, wherever it lies.
absl::Status FlipBit(const StateTensor& state, Device& device) {
  Stream& stream = device.compute_stream();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor piece, Tensor::Empty(device, Shape({1}), state.dtype(),
                                                            MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(state.Read(1, piece, stream));
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
  *static_cast<uint8_t*>(piece.raw_data()) ^= 1;
  ZEROTH_RETURN_IF_ERROR(state.Write(1, piece, stream));
  return stream.Synchronize();
}

// Returns the check's result after two steps of training and `damage`, which every rank runs.
using Damage = std::function<absl::Status(Rank& rank, const std::vector<ShardState>& states)>;
absl::Status CheckAfter(const Layout& layout, const Damage& damage) {
  std::vector<absl::Status> verdicts(static_cast<size_t>(layout.world_size));
  const absl::Status ran =
      RunLocalRanks(layout.world_size, [&](Communicator& world) -> absl::Status {
        Rank rank(world, kMatrix, kVector);
        ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
        ZEROTH_RETURN_IF_ERROR(rank.Load(Draw(kMatrix, "matrix"), Draw(kVector, "vector")));
        ZEROTH_ASSIGN_OR_RETURN(const auto adamw,
                                AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions()));
        ZEROTH_ASSIGN_OR_RETURN(const auto ema,
                                WeightEma::Create(*rank.sharding, *rank.kernels, 0.5));
        for (int step = 0; step < 2; ++step) {
          ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw(kMatrix, "dm"), Draw(kVector, "dv")));
          ZEROTH_RETURN_IF_ERROR(adamw->Step(/*lr=*/0.1));
          ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
          ZEROTH_RETURN_IF_ERROR(ema->Update());
        }
        std::vector<ShardState> states = adamw->states();
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> averages, ema->states());
        states.insert(states.end(), averages.begin(), averages.end());
        ZEROTH_RETURN_IF_ERROR(damage(rank, states));
        verdicts[static_cast<size_t>(world.rank())] = CheckReplicas(*rank.sharding, states);
        // Training can continue after it: every unit is resharded.
        return rank.Backward(Draw(kMatrix, "dm"), Draw(kVector, "dv"));
      });
  EXPECT_TRUE(ran.ok()) << ran;
  for (const absl::Status& verdict : verdicts) EXPECT_EQ(verdict, verdicts[0]);
  return verdicts[0];
}

absl::Status None(Rank&, const std::vector<ShardState>&) { return absl::OkStatus(); }

Damage InState(int rank, const std::string& name) {
  return [=](Rank& mine, const std::vector<ShardState>& states) -> absl::Status {
    if (mine.world.rank() != rank) return absl::OkStatus();
    for (const ShardState& state : states) {
      if (state.name == name) return FlipBit(state.shard, *mine.device);
    }
    return absl::NotFoundError(name);
  };
}

Damage InParameters(int rank) {
  return [=](Rank& mine, const std::vector<ShardState>&) -> absl::Status {
    if (mine.world.rank() != rank) return absl::OkStatus();
    return FlipBit(mine.sharding->FindUnit("unit")->ShardState(0), *mine.device);
  };
}

void ExpectFound(const absl::Status& status, const std::string& what, const std::string& verdict) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr("replicas differ in unit 'unit', its " + what));
  EXPECT_THAT(status.message(), HasSubstr(verdict));
}

TEST(ReplicaCheckTest, FindsNothingWhereNothingIsWrong) {
  for (const Layout& layout : AllLayouts()) {
    const absl::Status status = CheckAfter(layout, None);
    EXPECT_TRUE(status.ok()) << layout.strategy << " x " << layout.world_size << ": " << status;
  }
}

TEST(ReplicaCheckTest, FindsABitOfWhatEveryRankKeeps) {
  const Layout layout = {"no_shard", 4};
  for (const char* name : {"m", "v", "ema"}) {
    ExpectFound(CheckAfter(layout, InState(2, name)), absl::StrCat("state '", name, "' (matrix"),
                "rank 2 has other bits than ranks 0, 1, 3");
  }
  ExpectFound(CheckAfter(layout, InParameters(0)), "parameters (matrix and 1 more)",
              "rank 0 has other bits than ranks 1-3");
}

TEST(ReplicaCheckTest, OfTwoItCannotTellWhich) {
  ExpectFound(CheckAfter({"no_shard", 2}, InParameters(1)), "parameters",
              "no value is most ranks'");
}

TEST(ReplicaCheckTest, ComparesReplicasOfAShard) {
  // Ranks 1, 3 and 5 have the second shard.
  ExpectFound(CheckAfter({"hybrid_shard", 6, 2}, InState(3, "m")), "state 'm'",
              "rank 3 has other bits than ranks 1, 5");
}

TEST(ReplicaCheckTest, ReadsWhatIsOffloaded) {
  Layout layout = {"no_shard", 3};
  layout.offload.optimizer = true;
  ExpectFound(CheckAfter(layout, InState(1, "v")), "state 'v'",
              "rank 1 has other bits than ranks 0, 2");
}

TEST(ReplicaCheckTest, ShardsThatNobodyElseHasAreNotCompared) {
  EXPECT_TRUE(CheckAfter({"full_shard", 4}, InState(2, "m")).ok());
}

// Acts as a link that corrupts the data that one rank receives.
class BadLink : public UnitCollectives {
 public:
  explicit BadLink(bool bad) : bad_(bad) {}
  absl::Status AllGather(const Tensor& mine, const Tensor& full,
                         const CollectiveContext& context) override {
    ZEROTH_RETURN_IF_ERROR(UnitCollectives::AllGather(mine, full, context));
    if (!bad_) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(context.stream.Synchronize());
    static_cast<uint8_t*>(full.raw_data())[9] ^= 4;
    return absl::OkStatus();
  }

 private:
  const bool bad_;
};

TEST(ReplicaCheckTest, FindsABitOfWhatIsGathered) {
  for (const char* strategy : {"shard_optimizer", "shard_grad_op", "full_shard"}) {
    std::vector<absl::Status> verdicts(4);
    const absl::Status ran = RunLocalRanks(4, [&](Communicator& world) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
      Parameter matrix("matrix", kMatrix);
      UnitSpec unit;
      unit.name = "unit";
      unit.parameters = {&matrix};
      unit.collectives = std::make_shared<BadLink>(world.rank() == 1);
      ShardingOptions options;
      options.strategy = strategy;
      ZEROTH_ASSIGN_OR_RETURN(const auto sharding,
                              Sharding::Create(world, *device, options, {unit}));
      ZEROTH_RETURN_IF_ERROR(sharding->Initialize(1));
      verdicts[static_cast<size_t>(world.rank())] = CheckReplicas(*sharding, {});
      return absl::OkStatus();
    });
    EXPECT_TRUE(ran.ok()) << ran;
    for (const absl::Status& verdict : verdicts) {
      ExpectFound(verdict, "gathered parameters (matrix)",
                  "rank 1 has other bits than ranks 0, 2, 3");
    }
  }
}

// Returns the check's result under tensor parallelism, once a bit of `damaged` has changed on one
// of eight ranks. Four neighbours have a quarter of "part" each, and all of "whole".
absl::Status CheckOfParts(const std::string& strategy, int bad_rank, const std::string& damaged) {
  constexpr int kTensorRanks = 4;
  std::vector<absl::Status> verdicts(8);
  const absl::Status ran = RunLocalRanks(8, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(const auto kernels,
                            KernelRegistry::Create(*device, device->compute_stream()));
    Parameter part("part", Shape({8, 9}));
    Parameter whole("whole", kMatrix);
    ZEROTH_RETURN_IF_ERROR(part.Divide({"tensor", 0, world.rank() % kTensorRanks, kTensorRanks}));
    UnitSpec spec;
    spec.name = "unit";
    spec.parameters = {&part, &whole};
    ShardingOptions options;
    options.strategy = strategy;
    options.inner_axes = {{"tensor", kTensorRanks}};
    ZEROTH_ASSIGN_OR_RETURN(const auto sharding, Sharding::Create(world, *device, options, {spec}));
    ZEROTH_RETURN_IF_ERROR(sharding->Initialize(1));
    ZEROTH_ASSIGN_OR_RETURN(const auto adamw, AdamW::Create(*sharding, *kernels, AdamWOptions()));
    const std::vector<ShardState> states = adamw->states();
    if (world.rank() == bad_rank) {
      for (const ShardState& state : states) {
        const Unit& unit = *state.unit;
        const int index = unit.segment_layout(state.segment).parameters[0];
        if (unit.parameters()[static_cast<size_t>(index)]->name() + " " + state.name == damaged) {
          ZEROTH_RETURN_IF_ERROR(FlipBit(state.shard, *device));
        }
      }
    }
    verdicts[static_cast<size_t>(world.rank())] = CheckReplicas(*sharding, states);
    return absl::OkStatus();
  });
  EXPECT_TRUE(ran.ok()) << ran;
  for (const absl::Status& verdict : verdicts) EXPECT_EQ(verdict, verdicts[0]);
  return verdicts[0];
}

TEST(ReplicaCheckTest, ComparesWhatRanksThatShareLayersAllHave) {
  for (const char* strategy : {"no_shard", "full_shard"}) {
    EXPECT_TRUE(CheckOfParts(strategy, 5, "nothing").ok()) << strategy;
  }
  // Under full_shard the other four ranks have another shard of it.
  ExpectFound(CheckOfParts("full_shard", 5, "whole m"), "state 'm' (whole)",
              "rank 5 has other bits than ranks 4, 6, 7");
  ExpectFound(CheckOfParts("no_shard", 5, "whole v"), "state 'v' (whole)",
              "rank 5 has other bits than ranks 0-4, 6, 7");
}

TEST(ReplicaCheckTest, ComparesPartsOfParametersOverDataRanks) {
  ExpectFound(CheckOfParts("no_shard", 5, "part m"), "state 'm' (part)",
              "no value is most ranks', so that it is not known which is right");
  EXPECT_TRUE(CheckOfParts("full_shard", 5, "part m").ok());  // which no other rank holds
}

}  // namespace
}  // namespace zeroth
