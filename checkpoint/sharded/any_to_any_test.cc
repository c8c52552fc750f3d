// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Any strategy loads what any other saved, at any world size and precision, bit for bit. Tests
// every pair of strategy and world size, with random shapes, precisions, layouts and frozen
// parameters.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/testing/state.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {
namespace {

using testing::ElementOf;
using testing::RandomUnits;
using testing::Spread;
using testing::TestState;

constexpr int64_t kStep = 7;

struct Precision {
  DType master;
  DType moments;
};
constexpr Precision kPrecisions[] = {{DType::kFloat32, DType::kFloat32},
                                     {DType::kFloat32, DType::kBFloat16},
                                     {DType::kBFloat16, DType::kFloat32},
                                     {DType::kBFloat16, DType::kBFloat16}};

// Every strategy at every world size, hybrids with a random size of groups.
std::vector<Spread> EveryStrategyAndWorld(std::mt19937& random) {
  std::vector<Spread> spreads;
  for (const int world : {1, 2, 3, 4, 8}) {
    for (const char* strategy :
         {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
      spreads.push_back({strategy, world});
    }
    spreads.push_back({"hybrid_shard", world});
    spreads.back().optimizer_over_world = true;
  }
  for (Spread& spread : spreads) {
    if (spread.strategy != "hybrid_shard") continue;
    do {
      spread.shard_size = 1 + static_cast<int>(random() % static_cast<unsigned>(spread.world_size));
    } while (spread.world_size % spread.shard_size != 0);
  }
  return spreads;
}

void Vary(const Precision& precision, std::mt19937& random, Spread& spread) {
  spread.master_dtype = precision.master;
  // Weights that are kept in bf16 are computed in it.
  const bool computes_in_bf16 = precision.master == DType::kBFloat16 || random() % 2 == 0;
  spread.param_dtype = computes_in_bf16 ? DType::kBFloat16 : DType::kFloat32;
  spread.state_dtype = precision.moments;
  spread.min_shard_numel = static_cast<int64_t>(random() % 3 == 0 ? random() % 60 : 0);
  spread.layout = random() % 4 == 0 ? LayoutKind::kRows : LayoutKind::kFlat;
}

std::set<std::string> RandomFrozen(const std::vector<ToyUnit>& units, std::mt19937& random) {
  std::set<std::string> frozen;
  for (const ToyUnit& unit : units) {
    for (size_t i = 0; i < unit.shapes.size(); ++i) {
      if (random() % 4 == 0) frozen.insert(absl::StrCat(unit.name, ".", i));
    }
  }
  return frozen;
}

// The finite bits that a state of a type has at first: those of `value`, or its upper half.
uint32_t BitsIn(DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return dtype == DType::kFloat32 ? bits : bits >> 16;
}

// The nearest bf16 by comparing distances, the even one of two; beyond half of the last step there
// is infinity.
uint32_t NearestBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t down = bits >> 16;
  const uint32_t up = down + 1;
  const double low = std::abs(double{std::bit_cast<float>(down << 16)});
  const bool overflows = (up & 0x7f80u) == 0x7f80u;
  const double high =
      overflows ? std::ldexp(1.0, 128) : std::abs(double{std::bit_cast<float>(up << 16)});
  const double exact = std::abs(double{value});
  if (exact - low != high - exact) return exact - low < high - exact ? down : up;
  return down % 2 == 0 ? down : up;
}

// The bits of BitsIn(from, value) in another type.
uint32_t ConvertedBits(DType from, DType to, float value) {
  const uint32_t bits = BitsIn(from, value);
  if (from == to) return bits;
  return to == DType::kFloat32 ? bits << 16 : NearestBFloat16(value);
}

struct Saved {
  Spread spread;
  std::vector<ToyUnit> units;
  std::set<std::string> frozen;

  DType dtype_of(const std::string& state) const {
    return state == "param" ? spread.master_dtype : spread.state_dtype;
  }
};

absl::Status Save(const std::string& directory, const Saved& saved) {
  return RunToyRanks(
      saved.spread.world_size, [&](Communicator& world, Device& device) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(TestState state, TestState::Create(world, device, saved.spread,
                                                                   saved.units, saved.frozen));
        state.ForEach([&](const std::string& parameter, const std::string& name, int64_t element,
                          absl::Span<uint8_t> bytes) {
          const uint32_t bits =
              BitsIn(saved.dtype_of(name), ElementOf(parameter, name, element, 1));
          std::memcpy(bytes.data(), &bits, bytes.size());
        });
        CheckpointSaverOptions options;
        options.directory = directory;
        options.async = saved.spread.world_size % 2 == 0;
        ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
        ZEROTH_RETURN_IF_ERROR(saver
                                   ->Save(kStep, nlohmann::json::object(),
                                          OwnedPieces(*state.sharding, state.optimizer->states()))
                                   .status());
        return saver->Wait();
      });
}

absl::Status LoadAndCompare(const std::string& directory, const Saved& saved, const Spread& to,
                            const std::set<std::string>& frozen) {
  return RunToyRanks(to.world_size, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, to, saved.units, frozen));
    state.Fill(/*version=*/2);
    ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                            CheckpointReader::Open(CheckpointPath(directory, kStep)));
    ZEROTH_RETURN_IF_ERROR(LoadState(*reader, *state.sharding, state.optimizer->states()).status());
    absl::Status status;
    state.ForEach([&](const std::string& parameter, const std::string& name, int64_t element,
                      absl::Span<uint8_t> bytes) {
      const DType dtype = name == "param" ? to.master_dtype : to.state_dtype;
      uint32_t expected =
          ConvertedBits(saved.dtype_of(name), dtype, ElementOf(parameter, name, element, 1));
      // It had no moments there.
      if (name != "param" && saved.frozen.count(parameter) > 0) expected = 0;
      uint32_t found = 0;
      std::memcpy(&found, bytes.data(), bytes.size());
      if (found == expected) return;
      status.Update(absl::InternalError(absl::StrCat(name, " of ", parameter, ", element ", element,
                                                     ": the bits ", absl::Hex(found), ", expected ",
                                                     absl::Hex(expected))));
    });
    return status;
  });
}

TEST(AnyToAnyTest, EveryStrategyAndWorldLoadsEveryOther) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const std::vector<Spread> spreads = EveryStrategyAndWorld(random);
  for (size_t i = 0; i < spreads.size(); ++i) {
    const TemporaryDirectory dir;
    Saved saved{spreads[i], RandomUnits(static_cast<uint32_t>(random())), {}};
    saved.frozen = RandomFrozen(saved.units, random);
    Vary(kPrecisions[i % 4], random, saved.spread);
    ASSERT_EQ(Save(dir.path(), saved), absl::OkStatus())
        << saved.spread.name() << ", seed " << seed;
    for (size_t j = 0; j < spreads.size(); ++j) {
      Spread to = spreads[j];
      // Each precision meets each: i and i / 4 together run through all.
      Vary(kPrecisions[(i / 4 + j) % 4], random, to);
      EXPECT_EQ(LoadAndCompare(dir.path(), saved, to, RandomFrozen(saved.units, random)),
                absl::OkStatus())
          << "from " << saved.spread.name() << " to " << to.name() << ", seed " << seed;
    }
  }
}

TEST(AnyToAnyTest, TheReferenceRounds) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7, of which 1 is even; the next one up rounds up.
  EXPECT_EQ(NearestBFloat16(1.00390625f), 0x3f80u);
  EXPECT_EQ(NearestBFloat16(std::nextafter(1.00390625f, 2.0f)), 0x3f81u);
  EXPECT_EQ(NearestBFloat16(-1.01171875f), 0xbf82u);
  EXPECT_EQ(NearestBFloat16(3.4028235e38f), 0x7f80u);
}

}  // namespace
}  // namespace zeroth
