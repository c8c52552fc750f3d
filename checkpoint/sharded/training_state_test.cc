// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// States travel between spreads through checkpoints, bit for bit.

#include "zeroth/checkpoint/sharded/training_state.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/testing_state.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using testing::AllSpreads;
using ::testing::HasSubstr;
using testing::RandomUnits;
using testing::Spread;
using testing::TestState;

absl::Status SaveState(const std::string& directory, const Spread& spread,
                       const std::vector<ToyUnit>& units, bool freeze_first = true) {
  return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, spread, units, freeze_first));
    state.Fill(/*version=*/1);
    CheckpointSaverOptions options;
    options.directory = directory;
    ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
    return saver->Save(5, {{"x", 1}}, OwnedPieces(*state.sharding, state.optimizer->states()))
        .status();
  });
}

absl::Status LoadAndCheck(const std::string& directory, const Spread& spread,
                          const std::vector<ToyUnit>& units) {
  return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state, TestState::Create(world, device, spread, units));
    state.Fill(/*version=*/2);
    ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                            CheckpointReader::Open(CheckpointPath(directory, 5)));
    ZEROTH_ASSIGN_OR_RETURN(const LoadedState loaded,
                            LoadState(*reader, *state.sharding, state.optimizer->states()));
    ZEROTH_TOY_EXPECT(loaded.notes.empty() && loaded.incomplete.empty());
    return state.Check(/*version=*/1);
  });
}

TEST(TrainingStateTest, EverySpreadLoadsWhatEveryOtherSaved) {
  uint32_t seed = 0;
  for (const Spread& from : AllSpreads()) {
    const TemporaryDirectory dir;
    const std::vector<ToyUnit> units = RandomUnits(++seed);
    ASSERT_EQ(SaveState(dir.path(), from, units), absl::OkStatus()) << from.name();
    for (const Spread& to : AllSpreads()) {
      EXPECT_EQ(LoadAndCheck(dir.path(), to, units), absl::OkStatus())
          << "from " << from.name() << " to " << to.name() << ", seed " << seed;
    }
  }
}

TEST(TrainingStateTest, RanksShareTheWritingOfWhatTheyAllHold) {
  const std::vector<ToyUnit> units = UniformUnits(6);
  for (const Spread& spread : {Spread{"no_shard", 4}, Spread{"hybrid_shard", 4, 2},
                               Spread{"full_shard", 4, 0, 500}, testing::OverWorld(4, 2, 500)}) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), spread, units, /*freeze_first=*/false), absl::OkStatus());
    const auto reader = CheckpointReader::Open(CheckpointPath(dir.path(), 5));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->index().training["x"], 1);
    int64_t least = INT64_MAX;
    int64_t most = 0;
    int64_t total = 0;
    for (const CheckpointFile& file : (*reader)->index().files) {
      least = std::min(least, file.bytes - file.header_bytes);
      most = std::max(most, file.bytes - file.header_bytes);
      total += file.bytes - file.header_bytes;
    }
    // Each state of each parameter is written once.
    int64_t expected = 0;
    for (const auto& [name, parameter] : (*reader)->index().parameters) {
      expected += parameter.shape.numel() * 4 * static_cast<int64_t>(parameter.states.size());
    }
    EXPECT_EQ(total, expected) << spread.name();
    EXPECT_LT(most, 2 * least) << spread.name();
  }
}

// What loading `units` says where the checkpoint is of AwkwardUnits; `filled` gets the value of the
// first parameter's first element.
absl::Status LoadOther(const std::vector<ToyUnit>& units, bool fill, std::vector<std::string>& said,
                       float& filled) {
  const TemporaryDirectory dir;
  const Spread spread{"full_shard", 1};
  ZEROTH_RETURN_IF_ERROR(SaveState(dir.path(), spread, AwkwardUnits()));
  return RunToyRanks(1, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state, TestState::Create(world, device, spread, units));
    ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                            CheckpointReader::Open(CheckpointPath(dir.path(), 5)));
    LoadStateOptions options;
    if (fill) options.fill_missing = ReaderOf([](const Parameter&, int64_t) { return 77.0f; });
    ZEROTH_ASSIGN_OR_RETURN(
        const LoadedState loaded,
        LoadState(*reader, *state.sharding, state.optimizer->states(), options));
    said = loaded.notes;
    filled = state.sharding->units()[0]->ShardState(0).tensor().data<float>()[0];
    return absl::OkStatus();
  });
}

TEST(TrainingStateTest, AnotherModelIsRefusedOrFilledIn) {
  std::vector<ToyUnit> units = AwkwardUnits();
  units[0].shapes[0] = Shape({3, 5});
  units.push_back({"new", {Shape({2})}});
  units[3].shapes.pop_back();
  std::vector<std::string> said;
  float filled = 0;
  const absl::Status status = LoadOther(units, /*fill=*/false, said, filled);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1 parameters are missing from it: new.0"),
                    HasSubstr("1 have another shape: root.0 ([5, 3] in the checkpoint, [3, 5]"),
                    HasSubstr("1 are not in the model: h.2.2")));
  ASSERT_EQ(LoadOther(units, /*fill=*/true, said, filled), absl::OkStatus());
  EXPECT_EQ(said.size(), 3u);
  EXPECT_EQ(filled, 77.0f);
}

TEST(TrainingStateTest, AThawedParameterBeginsWithZeroMoments) {
  const TemporaryDirectory dir;
  const Spread spread{"full_shard", 2};
  ASSERT_EQ(SaveState(dir.path(), spread, AwkwardUnits()), absl::OkStatus());
  EXPECT_EQ(
      RunToyRanks(
          2,
          [&](Communicator& world, Device& device) -> absl::Status {
            ZEROTH_ASSIGN_OR_RETURN(
                TestState state, TestState::Create(world, device, spread, AwkwardUnits(), false));
            state.Fill(/*version=*/2);
            ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                                    CheckpointReader::Open(CheckpointPath(dir.path(), 5)));
            ZEROTH_ASSIGN_OR_RETURN(const LoadedState loaded,
                                    LoadState(*reader, *state.sharding, state.optimizer->states()));
            ZEROTH_TOY_EXPECT(loaded.incomplete == (std::set<std::string>{"m", "v"}));
            int wrong = 0;
            state.ForEach([&](const std::string& parameter, const std::string& name,
                              int64_t element, absl::Span<uint8_t> bytes) {
              const bool thawed = parameter == "root.0" && name != "param";
              const float expected =
                  thawed ? 0.0f : testing::ElementOf(parameter, name, element, 1);
              wrong += std::memcmp(bytes.data(), &expected, bytes.size()) != 0;
            });
            ZEROTH_TOY_EXPECT(wrong == 0);
            return absl::OkStatus();
          }),
      absl::OkStatus());
}

TEST(TrainingStateTest, CodesAndTheirScalesTravelAsTheyAre) {
  std::vector<Spread> spreads = AllSpreads();
  for (Spread& spread : spreads) spread.state_dtype = DType::kUInt8;
  // Parameters of several blocks, ends of which are no whole ones.
  std::vector<ToyUnit> units = AwkwardUnits();
  units.push_back({"large", {Shape({37, 41}), Shape({128}), Shape({129}), Shape({1000})}});
  for (const Spread& from : spreads) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), from, units), absl::OkStatus()) << from.name();
    for (const Spread& to : spreads) {
      EXPECT_EQ(LoadAndCheck(dir.path(), to, units), absl::OkStatus())
          << "from " << from.name() << " to " << to.name();
    }
  }
}

TEST(TrainingStateTest, CodesDoNotBecomeNumbers) {
  Spread codes{"full_shard", 2};
  codes.state_dtype = DType::kUInt8;
  const Spread numbers{"full_shard", 3};
  for (const auto& [from, to] : {std::pair(codes, numbers), std::pair(numbers, codes)}) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), from, AwkwardUnits()), absl::OkStatus());
    const absl::Status status = LoadAndCheck(dir.path(), to, AwkwardUnits());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("codes do not become numbers"));
  }
}

TEST(TrainingStateTest, MomentsInBf16ComeBackAndWiden) {
  const TemporaryDirectory dir;
  Spread bf16{"full_shard", 3};
  bf16.state_dtype = DType::kBFloat16;
  ASSERT_EQ(SaveState(dir.path(), bf16, AwkwardUnits()), absl::OkStatus());
  Spread other{"no_shard", 2};
  other.state_dtype = DType::kBFloat16;
  EXPECT_EQ(LoadAndCheck(dir.path(), other, AwkwardUnits()), absl::OkStatus());
  // Fill wrote the lower half of a float into each; in fp32 that is its upper half.
  const auto check = [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, {"full_shard", 2}, AwkwardUnits()));
    ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                            CheckpointReader::Open(CheckpointPath(dir.path(), 5)));
    ZEROTH_RETURN_IF_ERROR(LoadState(*reader, *state.sharding, state.optimizer->states()).status());
    int wrong = 0;
    state.ForEach([&](const std::string& parameter, const std::string& name, int64_t element,
                      absl::Span<uint8_t> bytes) {
      const auto half = static_cast<uint16_t>(
          std::bit_cast<uint32_t>(testing::ElementOf(parameter, name, element, 1)));
      const uint32_t expected = uint32_t{half} << 16;
      wrong += name != "param" && std::memcmp(bytes.data(), &expected, bytes.size()) != 0;
    });
    ZEROTH_TOY_EXPECT(wrong == 0);
    return absl::OkStatus();
  };
  EXPECT_EQ(RunToyRanks(2, check), absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
