// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checkpoints reshard a state from one layout to another, bit for bit.

#include "zeroth/checkpoint/sharded/training_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/testing/state.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/moment_codes.h"

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

TEST(TrainingStateTest, RanksShareTheWritingOfReplicatedState) {
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

// The status of loading `units` from a checkpoint of AwkwardUnits; `filled` gets the value of the
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
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("another model; 1 parameters are missing from it; 1 have another shape; "
                      "1 are not in the model\n"),
            HasSubstr("missing: new.0"),
            HasSubstr("of another shape: root.0 ([5, 3] in the checkpoint, [3, 5]"),
            HasSubstr("not in the model: h.2.2")));
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

// Parameters of several blocks, whose ends are not whole, and of none.
std::vector<ToyUnit> UnitsOfBlocks() {
  std::vector<ToyUnit> units = AwkwardUnits();
  units.push_back({"large", {Shape({37, 41}), Shape({128}), Shape({129}), Shape({1000})}});
  return units;
}

// The limit between the parameters "large.1" and "large.2" of UnitsOfBlocks.
constexpr int64_t kSmallNumel = 129;

// As a spread with 8-bit moments, but of parameters below kSmallNumel in fp32.
Spread WithSmallInFloat(Spread spread) {
  spread.state_dtype = DType::kUInt8;
  spread.min_8bit_numel = kSmallNumel;
  return spread;
}

bool IsSmall(const std::string& parameter) {
  for (const ToyUnit& unit : UnitsOfBlocks()) {
    for (size_t i = 0; i < unit.shapes.size(); ++i) {
      if (absl::StrCat(unit.name, ".", i) == parameter) {
        return unit.shapes[i].numel() < kSmallNumel;
      }
    }
  }
  ADD_FAILURE() << "no parameter '" << parameter << "'";
  return false;
}

TEST(TrainingStateTest, CodesAndTheirScalesTravelAsTheyAre) {
  std::vector<Spread> spreads = AllSpreads();
  for (Spread& spread : spreads) spread.state_dtype = DType::kUInt8;
  const std::vector<ToyUnit> units = UnitsOfBlocks();
  for (const Spread& from : spreads) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), from, units), absl::OkStatus()) << from.name();
    for (const Spread& to : spreads) {
      EXPECT_EQ(LoadAndCheck(dir.path(), to, units), absl::OkStatus())
          << "from " << from.name() << " to " << to.name();
    }
  }
}

// Between large parameters in codes, "large.1" of 128 elements and others have numbers.
TEST(TrainingStateTest, NumbersOfSmallParametersTravelBesideCodes) {
  std::vector<Spread> spreads = {{"no_shard", 1},          {"full_shard", 2},
                                 {"full_shard", 3},        {"hybrid_shard", 4, 2},
                                 testing::OverWorld(4, 2), {"no_shard", 4}};
  spreads[1].offload = true;
  for (Spread& spread : spreads) spread = WithSmallInFloat(spread);
  for (const Spread& from : spreads) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), from, UnitsOfBlocks()), absl::OkStatus()) << from.name();
    for (const Spread& to : spreads) {
      EXPECT_EQ(LoadAndCheck(dir.path(), to, UnitsOfBlocks()), absl::OkStatus())
          << "from " << from.name() << " to " << to.name();
    }
  }
}

using Visit = std::function<void(const std::string& parameter, const std::string& state,
                                 int64_t element, absl::Span<uint8_t> bytes)>;

// Loads the checkpoint of `directory` and returns every element of the result.
absl::Status LoadAndVisit(const std::string& directory, const Spread& spread, const Visit& visit) {
  std::mutex mutex;
  return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, spread, UnitsOfBlocks()));
    state.Fill(/*version=*/2);
    ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                            CheckpointReader::Open(CheckpointPath(directory, 5)));
    ZEROTH_ASSIGN_OR_RETURN(const LoadedState loaded,
                            LoadState(*reader, *state.sharding, state.optimizer->states()));
    ZEROTH_TOY_EXPECT(loaded.notes.empty() && loaded.incomplete.empty());
    const std::lock_guard<std::mutex> lock(mutex);
    state.ForEach(visit);
    return absl::OkStatus();
  });
}

Spread WithState(Spread spread, DType state_dtype) {
  spread.state_dtype = state_dtype;
  return spread;
}

float FloatFrom(absl::Span<const uint8_t> bytes) {
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// The moment that Fill(1) wrote as a code and as its block's scale.
float DecodedMoment(const std::string& parameter, const std::string& state, int64_t element) {
  const float value = testing::ElementOf(parameter, state, element, 1);
  const auto code = static_cast<uint8_t>(std::bit_cast<uint32_t>(value));
  const float scale = testing::ElementOf(parameter, state + "_scale", element / kMomentBlock, 1);
  return state == "m" ? DecodeMoment<FirstMomentCode>(code, scale)
                      : DecodeMoment<SecondMomentCode>(code, scale);
}

TEST(TrainingStateTest, CodesBecomeTheNumbersThatTheyStandFor) {
  for (const Spread& from : {Spread{"full_shard", 2}, Spread{"no_shard", 1}}) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), WithState(from, DType::kUInt8), UnitsOfBlocks()),
              absl::OkStatus());
    for (const Spread& to : {Spread{"full_shard", 3}, Spread{"shard_optimizer", 2}}) {
      int moments = 0;
      const absl::Status status = LoadAndVisit(
          dir.path(), to,
          [&](const std::string& parameter, const std::string& state, int64_t element,
              absl::Span<uint8_t> bytes) {
            float expected = testing::ElementOf(parameter, state, element, 1);
            if (state != "param") {
              expected = DecodedMoment(parameter, state, element);
              ++moments;
            }
            EXPECT_EQ(std::bit_cast<uint32_t>(FloatFrom(bytes)), std::bit_cast<uint32_t>(expected))
                << state << " of " << parameter << ", element " << element;
          });
      ASSERT_EQ(status, absl::OkStatus());
      EXPECT_GT(moments, 2000);
    }
  }
}

// Older versions have written codes for small parameters, too.
TEST(TrainingStateTest, OnlyCodesOfSmallParametersBecomeNumbers) {
  for (const Spread& from : {Spread{"full_shard", 2}, Spread{"no_shard", 1}}) {
    const TemporaryDirectory dir;
    ASSERT_EQ(SaveState(dir.path(), WithState(from, DType::kUInt8), UnitsOfBlocks()),
              absl::OkStatus());
    for (const Spread& to : {Spread{"full_shard", 3}, Spread{"shard_optimizer", 2}}) {
      int numbers = 0;
      int codes = 0;
      int scales = 0;
      const absl::Status status =
          LoadAndVisit(dir.path(), WithSmallInFloat(to),
                       [&](const std::string& parameter, const std::string& state, int64_t element,
                           absl::Span<uint8_t> bytes) {
                         float expected = testing::ElementOf(parameter, state, element, 1);
                         const bool is_moment = state == "m" || state == "v";
                         if (is_moment && IsSmall(parameter)) {
                           expected = DecodedMoment(parameter, state, element);
                           ++numbers;
                           EXPECT_EQ(bytes.size(), sizeof(float)) << state << " of " << parameter;
                         } else if (is_moment) {
                           ++codes;
                           EXPECT_EQ(bytes.size(), 1u) << state << " of " << parameter;
                         } else if (state != "param") {
                           ++scales;
                           EXPECT_FALSE(IsSmall(parameter)) << state << " of " << parameter;
                         }
                         EXPECT_EQ(std::memcmp(bytes.data(), &expected, bytes.size()), 0)
                             << state << " of " << parameter << ", element " << element;
                       });
      ASSERT_EQ(status, absl::OkStatus());
      EXPECT_GT(numbers, 600);
      EXPECT_GT(codes, 5000);
      EXPECT_GT(scales, 40);
    }
  }
}

// A moment of a usual size: elements of one block differ by a million.
float MomentOf(const std::string& parameter, const std::string& state, int64_t element) {
  const auto bits = std::bit_cast<uint32_t>(testing::ElementOf(parameter, state, element, 9));
  const float value = std::ldexp(static_cast<float>(static_cast<int>(bits % 2001) - 1000),
                                 -10 - static_cast<int>(bits >> 12 & 15));
  return state == "v" ? value * value : value;
}

absl::Status SaveMoments(const std::string& directory, const Spread& spread) {
  return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, spread, UnitsOfBlocks()));
    state.ForEach([&](const std::string& parameter, const std::string& name, int64_t element,
                      absl::Span<uint8_t> bytes) {
      const float value = MomentOf(parameter, name, element);
      std::memcpy(bytes.data(), &value, bytes.size());
    });
    CheckpointSaverOptions options;
    options.directory = directory;
    ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
    return saver
        ->Save(5, nlohmann::json::object(), OwnedPieces(*state.sharding, state.optimizer->states()))
        .status();
  });
}

// Every spread has the codes that the whole parameter's blocks have, and they mean what was saved.
TEST(TrainingStateTest, NumbersBecomeCodesBlockByBlock) {
  const TemporaryDirectory dir;
  ASSERT_EQ(SaveMoments(dir.path(), {"full_shard", 3}), absl::OkStatus());
  using Element = std::tuple<std::string, std::string, int64_t>;
  std::map<Element, std::vector<uint8_t>> first;
  const auto load = [&](const Spread& to, std::map<Element, std::vector<uint8_t>>& elements) {
    return LoadAndVisit(dir.path(), to,
                        [&](const std::string& parameter, const std::string& state, int64_t element,
                            absl::Span<uint8_t> bytes) {
                          elements[{parameter, state, element}].assign(bytes.begin(), bytes.end());
                        });
  };
  const std::vector<Spread> spreads = {
      {"no_shard", 1}, {"full_shard", 2}, {"full_shard", 4}, {"hybrid_shard", 4, 2}};
  for (const Spread& to : spreads) {
    std::map<Element, std::vector<uint8_t>> elements;
    ASSERT_EQ(load(WithState(to, DType::kUInt8), elements), absl::OkStatus());
    for (const auto& [element, bytes] : elements) {
      const auto& [parameter, state, place] = element;
      if (state != "m" && state != "v") continue;
      const float scale =
          FloatFrom(elements.at({parameter, state + "_scale", place / kMomentBlock}));
      const float decoded = state == "m" ? DecodeMoment<FirstMomentCode>(bytes[0], scale)
                                         : DecodeMoment<SecondMomentCode>(bytes[0], scale);
      const float saved = MomentOf(parameter, state, place);
      // Half of the last of four bits, or of the smallest step of either.
      const float step = std::ldexp(scale, state == "m" ? -17 : -33);
      EXPECT_NEAR(decoded, saved, std::max(std::abs(saved) / 16, step * 1.001f))
          << state << " of " << parameter << ", element " << place;
      EXPECT_TRUE(state == "m" || saved == 0 || decoded > 0);
    }
    if (first.empty()) first = elements;
    EXPECT_TRUE(elements == first) << to.name();
  }
  EXPECT_GT(first.size(), 4000u);
  // The same codes where small parameters keep their numbers.
  for (const Spread& to : spreads) {
    std::map<Element, std::vector<uint8_t>> elements;
    ASSERT_EQ(load(WithSmallInFloat(to), elements), absl::OkStatus());
    for (const auto& [element, bytes] : elements) {
      const auto& [parameter, state, place] = element;
      if (state == "param" || !IsSmall(parameter)) {
        EXPECT_EQ(bytes, first.at(element)) << state << " of " << parameter << ", " << place;
        continue;
      }
      ASSERT_EQ(bytes.size(), sizeof(float)) << state << " of " << parameter;
      EXPECT_EQ(FloatFrom(bytes), MomentOf(parameter, state, place))
          << state << " of " << parameter << ", " << place;
    }
  }
}

// And back again: the value of a code encodes to that code.
TEST(TrainingStateTest, NumbersThatWereCodesComeBackExactly) {
  const TemporaryDirectory numbers;
  ASSERT_EQ(SaveMoments(numbers.path(), {"full_shard", 2}), absl::OkStatus());
  const auto resave = [](const std::string& from, const std::string& to, const Spread& spread) {
    return RunToyRanks(spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(TestState state,
                              TestState::Create(world, device, spread, UnitsOfBlocks()));
      ZEROTH_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(CheckpointPath(from, 5)));
      ZEROTH_RETURN_IF_ERROR(
          LoadState(*reader, *state.sharding, state.optimizer->states()).status());
      CheckpointSaverOptions options;
      options.directory = to;
      ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
      return saver
          ->Save(5, nlohmann::json::object(),
                 OwnedPieces(*state.sharding, state.optimizer->states()))
          .status();
    });
  };
  const TemporaryDirectory codes;
  const TemporaryDirectory widened;
  const TemporaryDirectory again;
  ASSERT_EQ(resave(numbers.path(), codes.path(), WithState({"full_shard", 3}, DType::kUInt8)),
            absl::OkStatus());
  ASSERT_EQ(resave(codes.path(), widened.path(), {"full_shard", 2}), absl::OkStatus());
  ASSERT_EQ(resave(widened.path(), again.path(), WithState({"no_shard", 2}, DType::kUInt8)),
            absl::OkStatus());
  const auto read = [](const std::string& directory) {
    std::map<std::string, float> values;
    const absl::Status status =
        LoadAndVisit(directory, {"full_shard", 2},
                     [&](const std::string& parameter, const std::string& state, int64_t element,
                         absl::Span<uint8_t> bytes) {
                       values[absl::StrCat(parameter, "/", state, "/", element)] = FloatFrom(bytes);
                     });
    EXPECT_EQ(status, absl::OkStatus());
    return values;
  };
  EXPECT_EQ(read(again.path()), read(codes.path()));
}

TEST(TrainingStateTest, CodesWithoutACodingAreRefused) {
  const TemporaryDirectory dir;
  ASSERT_EQ(SaveState(dir.path(), WithState({"full_shard", 2}, DType::kUInt8), AwkwardUnits()),
            absl::OkStatus());
  const absl::Status status =
      RunToyRanks(2, [&](Communicator& world, Device& device) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(
            TestState state, TestState::Create(world, device, {"full_shard", 2}, AwkwardUnits()));
        ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                                CheckpointReader::Open(CheckpointPath(dir.path(), 5)));
        std::vector<ShardState> states = state.optimizer->states();
        for (ShardState& each : states) each.coding = StateCoding::kNone;
        return LoadState(*reader, *state.sharding, states).status();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be converted to"));
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
