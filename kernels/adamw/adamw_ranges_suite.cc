// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares one call with many ranges with one call for each range. AdamWSuite and
// LowPrecisionAdamWSuite compare the latter with the references.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/testing/adamw_state.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

// The place of a range in tensors that it shares with others, and the scalars of its update.
struct AdamWPiece {
  int64_t begin = 0;
  int64_t count = 0;
  AdamWArgs scalars;
};

// AdamW on many ranges in one call.
class AdamWRangesSuite : public AdamWStateSuite {
 protected:
  // Returns `scalars` with its scalars moved to coefficients in device memory.
  AdamWArgs OnDevice(AdamWArgs scalars);
  // Pieces of random sizes of `count` elements, empty ones and gaps included, each at a place in a
  // separate parameter, with a random one of `sets` sets of scalars, every third on the device.
  std::vector<AdamWPiece> Cut(const AdamWTypes& types, int64_t count, int sets,
                              const Tensor& grad_factor);
  // Return the state after one call with all pieces, or after one call for each.
  AdamWState StepTogether(const AdamWTypes& types, const AdamWState& state,
                          const std::vector<AdamWPiece>& pieces);
  AdamWState StepOneByOne(const AdamWTypes& types, const AdamWState& state,
                          const std::vector<AdamWPiece>& pieces);
};

namespace {

using Types = AdamWTypes;
using State = AdamWState;
using Piece = AdamWPiece;

// Returns the piece of the tensors of `whole`.
AdamWArgs Range(const AdamWArgs& whole, const Piece& piece) {
  AdamWArgs range = piece.scalars;
  const Shape shape({piece.count});
  range.param = whole.param.View(piece.begin, shape);
  range.grad = whole.grad.View(piece.begin, shape);
  range.m = whole.m.View(piece.begin, shape);
  range.v = whole.v.View(piece.begin, shape);
  if (whole.m_scale.defined()) {
    const Shape blocks({(piece.count + kMomentBlock - 1) / kMomentBlock});
    range.m_scale = whole.m_scale.View(piece.begin / kMomentBlock, blocks);
    range.v_scale = whole.v_scale.View(piece.begin / kMomentBlock, blocks);
  }
  return range;
}

std::vector<AdamWArgs> Ranges(const AdamWArgs& whole, const std::vector<Piece>& pieces) {
  std::vector<AdamWArgs> ranges;
  for (const Piece& piece : pieces) ranges.push_back(Range(whole, piece));
  return ranges;
}

}  // namespace

AdamWArgs AdamWRangesSuite::OnDevice(AdamWArgs scalars) {
  const AdamWCoefficients derived = DeriveAdamWCoefficients(scalars);
  std::vector<float> words(kAdamWCoefficients);
  std::memcpy(words.data(), &derived, sizeof(derived));
  scalars.coefficients = Upload(Shape({kAdamWCoefficients}), words);
  scalars.seed = 0;
  scalars.step = 0;
  scalars.lr = 5;
  return scalars;
}

std::vector<Piece> AdamWRangesSuite::Cut(const Types& types, int64_t count, int sets,
                                         const Tensor& grad_factor) {
  std::vector<AdamWArgs> scalars;
  for (int i = 0; i < sets; ++i) {
    scalars.push_back(RandomScalars(types, true));
    scalars.back().lr = 1e-3 * (i + 1);
    scalars.back().weight_decay = i % 2 == 0 ? 0.0 : 0.1;
    if (i % 3 == 2) scalars.back() = OnDevice(scalars.back());
    scalars.back().grad_factor = grad_factor;
  }
  constexpr int64_t kSizes[] = {0, 0, 1, 2, 127, 128, 129, 1024, 1500};
  const int64_t unit = types.moment == DType::kUInt8 ? kMomentBlock : 1;
  std::vector<Piece> pieces;
  for (int64_t begin = 0; begin < count;) {
    const int64_t wanted = RandomSize(0, 2) == 0 ? kSizes[RandomSize(0, 8)] : RandomSize(0, 200);
    Piece piece{begin, std::min(wanted, count - begin),
                scalars[static_cast<size_t>(RandomSize(0, sets - 1))]};
    const AdamWArgs place = RandomScalars(types, true);
    piece.scalars.stream = place.stream;
    piece.scalars.first_element = place.first_element;
    pieces.push_back(piece);
    const int64_t gap = RandomSize(0, 3) == 0 ? RandomSize(0, 20) : 0;
    begin += (piece.count + gap + unit - 1) / unit * unit;
  }
  return pieces;
}

State AdamWRangesSuite::StepTogether(const Types& types, const State& state,
                                     const std::vector<Piece>& pieces) {
  const AdamWArgs whole = UploadState(types, state, AdamWArgs());
  const absl::Status status = WhenDone(kernels::AdamW(kernels(), Ranges(whole, pieces)));
  EXPECT_TRUE(status.ok()) << status;
  return DownloadState(whole);
}

State AdamWRangesSuite::StepOneByOne(const Types& types, const State& state,
                                     const std::vector<Piece>& pieces) {
  const AdamWArgs whole = UploadState(types, state, AdamWArgs());
  for (const AdamWArgs& range : Ranges(whole, pieces)) {
    const absl::Status status = WhenDone(kernels::AdamW(kernels(), range));
    EXPECT_TRUE(status.ok()) << status;
  }
  return DownloadState(whole);
}

TEST_P(AdamWRangesSuite, ManyRangesHaveTheBitsOfManyCalls) {
  int most = 0;
  for (const Types& types : AllAdamWTypes()) {
    for (const int sets : {1, 7}) {
      SCOPED_TRACE(absl::StrCat(types.ToString(), ", ", sets, " sets of scalars"));
      const State start = RandomState(types, RandomSize(1, 24000));
      const Tensor grad_factor = sets == 1 ? Tensor() : Upload(Shape({1}), {0.81f});
      const std::vector<Piece> pieces = Cut(types, start.count(), sets, grad_factor);
      most = std::max(most, static_cast<int>(pieces.size()));
      ExpectSameBits(StepTogether(types, start, pieces), StepOneByOne(types, start, pieces));
    }
  }
  EXPECT_GT(most, 90);  // more than a launch can hold
}

// Ranges of every type in one call.
TEST_P(AdamWRangesSuite, TypesMayDiffer) {
  struct Whole {
    Types types;
    State start;
    std::vector<Piece> pieces;
    AdamWArgs args;
  };
  std::vector<Whole> wholes;
  std::vector<AdamWArgs> ranges;
  for (const Types& types : AllAdamWTypes()) {
    Whole whole{types, RandomState(types, RandomSize(1, 700)), {}, {}};
    whole.pieces = Cut(types, whole.start.count(), 2, Tensor());
    whole.args = UploadState(types, whole.start, AdamWArgs());
    for (const AdamWArgs& range : Ranges(whole.args, whole.pieces)) ranges.push_back(range);
    wholes.push_back(std::move(whole));
  }
  std::shuffle(ranges.begin(), ranges.end(), random());
  ASSERT_TRUE(WhenDone(kernels::AdamW(kernels(), ranges)).ok());
  for (const Whole& whole : wholes) {
    SCOPED_TRACE(whole.types.ToString());
    ExpectSameBits(DownloadState(whole.args), StepOneByOne(whole.types, whole.start, whole.pieces));
  }
}

// A range whose scale is NaN is skipped, and the others are not.
TEST_P(AdamWRangesSuite, OneRangeMayBeSkipped) {
  for (const DType moment : {DType::kFloat32, DType::kUInt8}) {
    const Types types = {DType::kFloat32, DType::kFloat32, moment};
    const State start = RandomState(types, 9000);
    std::vector<Piece> pieces = Cut(types, start.count(), 2, Tensor());
    std::vector<Piece> updated;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i % 5 != 1) {
        updated.push_back(pieces[i]);
        continue;
      }
      pieces[i].scalars = RandomScalars(types, true);
      pieces[i].scalars.grad_scale = std::numeric_limits<double>::quiet_NaN();
      if (i % 2 == 0) pieces[i].scalars = OnDevice(pieces[i].scalars);
    }
    ASSERT_LT(updated.size(), pieces.size());
    ExpectSameBits(StepTogether(types, start, pieces), StepOneByOne(types, start, updated));
  }
}

TEST_P(AdamWRangesSuite, ANaNFactorSkipsAll) {
  const Types types = {DType::kBFloat16, DType::kFloat32, DType::kBFloat16};
  const State start = RandomState(types, 3000);
  const Tensor nan = Upload(Shape({1}), {std::numeric_limits<float>::quiet_NaN()});
  ExpectSameBits(StepTogether(types, start, Cut(types, start.count(), 3, nan)), start);
}

TEST_P(AdamWRangesSuite, NoRangesAreNothing) {
  EXPECT_TRUE(WhenDone(kernels::AdamW(kernels(), std::vector<AdamWArgs>())).ok());
}

TEST_P(AdamWRangesSuite, OneThatDoesNotFitIsNamedAndNothingChanges) {
  const Types types = {DType::kFloat32, DType::kFloat32, DType::kFloat32};
  const State start = RandomState(types, 40);
  const AdamWArgs whole = UploadState(types, start, AdamWArgs());
  std::vector<AdamWArgs> ranges;
  for (int64_t i = 0; i < 4; ++i) {
    ranges.push_back(Range(whole, {10 * i, 10, RandomScalars(types, true)}));
  }
  ranges[2].grad = whole.grad.View(20, Shape({9}));
  ExpectInvalid(WhenDone(kernels::AdamW(kernels(), ranges)),
                {"AdamW", "grad is [9], expected [10]", "in range 2 of 4"});
  ExpectSameBits(DownloadState(whole), start);
}

INSTANTIATE_TEST_SUITE_P(Devices, AdamWRangesSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
