// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/rope/testing/rope_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class RopeSuite : public KernelsSuite {};

// Sequence lengths, head sizes and bases change between the calls, so that a stale table would
// show.
TEST_P(RopeSuite, RotatesAndBack) {
  for (int i = 0; i < 80; ++i) {
    const DType dtype = kElementTypes[i / 2 % 3];
    AttentionShape shape;
    shape.batch = RandomSize(0, 3);
    shape.seq = RandomSize(0, 40);
    shape.kv_heads = RandomSize(1, 3);
    shape.heads = shape.kv_heads * RandomSize(1, 3);
    shape.head_dim = 2 * RandomSize(1, 40);
    const Shape packed{shape.batch, shape.seq, shape.packed_dim()};
    const std::vector<float> qkv = RoundTo(dtype, RandomNormal(packed.numel()));
    RopeArgs args;
    args.shape = shape;
    args.qkv = Upload(packed, qkv, dtype);
    args.spec.theta = i % 2 == 0 ? 10000.0 : 500000.0;
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    const std::vector<float> rotated = Download(args.qkv);
    ExpectCloseIn(dtype, rotated, reference::Rope(shape, args.spec.theta, false, ToDouble(qkv)),
                  3e-7, 0, "rotated");
    for (int64_t row = 0; row < shape.batch * shape.seq; ++row) {
      for (int64_t c = (shape.heads + shape.kv_heads) * shape.head_dim; c < shape.packed_dim();
           ++c) {
        ASSERT_EQ(rotated[row * shape.packed_dim() + c], qkv[row * shape.packed_dim() + c])
            << "values are not rotated";
      }
    }
    args.inverse = true;
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    ExpectCloseIn(dtype, Download(args.qkv),
                  reference::Rope(shape, args.spec.theta, true, ToDouble(rotated)), 3e-7, 0,
                  "rotated back");
    // Rounding the rotated pair moves neither of its elements by more than its length does.
    const double rounding = dtype == DType::kFloat32   ? 5e-7
                            : dtype == DType::kFloat16 ? 0x1p-10
                                                       : 0x1p-7;
    ExpectClose(Download(args.qkv), ToDouble(qkv), rounding, 0, "rotated there and back");
  }
}

// Positions begin anew with each document.
TEST_P(RopeSuite, DocumentsAreRotatedAsSequencesAre) {
  const AttentionShape whole{1, 20, 2, 1, 10};
  const int64_t row = whole.packed_dim();
  const std::vector<float> qkv = RandomNormal(20 * row);
  RopeArgs args;
  args.shape = whole;
  args.qkv = Upload({1, 20, row}, qkv);
  std::vector<int32_t> starts(20, 0);
  std::fill(starts.begin() + 7, starts.end(), 7);
  args.starts = UploadTokens({1, 20}, starts);
  ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
  const std::vector<float> packed = Download(args.qkv);
  args.starts = Tensor();
  std::vector<float> apart;
  for (const auto& [begin, end] : {std::pair(0, 7), std::pair(7, 20)}) {
    args.shape.seq = end - begin;
    args.qkv = Upload({1, args.shape.seq, row},
                      std::vector<float>(qkv.begin() + begin * row, qkv.begin() + end * row));
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    const std::vector<float> part = Download(args.qkv);
    apart.insert(apart.end(), part.begin(), part.end());
  }
  EXPECT_EQ(packed, apart);
}

// Tokens that follow others are rotated as in one call, whatever a table from an earlier call has.
TEST_P(RopeSuite, PositionsCountFromTheFirst) {
  const AttentionShape whole{1, 20, 2, 1, 10};
  const int64_t row = whole.packed_dim();
  const std::vector<float> qkv = RandomNormal(20 * row);
  RopeArgs args;
  args.shape = whole;
  args.qkv = Upload({1, 20, row}, qkv);
  ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
  const std::vector<float> together = Download(args.qkv);
  args.spec.theta = 500.0;  // another table in between
  ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
  args.spec.theta = 10000.0;
  std::vector<float> apart;
  for (const auto& [begin, end] : {std::pair(0, 3), std::pair(3, 4), std::pair(4, 20)}) {
    args.shape.seq = end - begin;
    args.first_position = begin;
    args.qkv = Upload({1, args.shape.seq, row},
                      std::vector<float>(qkv.begin() + begin * row, qkv.begin() + end * row));
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    const std::vector<float> part = Download(args.qkv);
    apart.insert(apart.end(), part.begin(), part.end());
  }
  EXPECT_EQ(together, apart);
  args.first_position = -1;
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "first_position is -1"});
}

// Layers of one model may alternate between specs. Each table is computed once, a bounded number of
// them is kept, and a recording can be played after its tables were replaced.
TEST_P(RopeSuite, KeepsTheTablesOfAFewSpecs) {
  RopeArgs args;
  args.shape = {1, 20, 2, 1, 10};
  const Shape packed{1, 20, args.shape.packed_dim()};
  const std::vector<float> start = RandomNormal(packed.numel());
  const Tensor saved = Upload(packed, start);
  const Tensor qkv = Upload(packed, start);
  args.qkv = qkv;
  const auto rotate = [&](double theta, int64_t seq = 20) {
    args.shape.seq = seq;
    args.qkv = qkv.View(0, Shape({1, seq, args.shape.packed_dim()}));
    args.spec.theta = theta;
    return kernels::Rope(kernels(), args);
  };
  const auto tables = [&] { return device().allocator().stats()[MemoryCategory::kWorkspace]; };
  const MemoryStats::Usage before = tables();
  for (int step = 0; step < 3; ++step) {
    for (const double theta : {1e4, 1e6}) ASSERT_TRUE(rotate(theta).ok());
  }
  EXPECT_EQ(tables().allocations - before.allocations, 2);
  const int64_t bytes = (tables().current_bytes - before.current_bytes) / 2;
  EXPECT_EQ(bytes, 20 * 10 * static_cast<int64_t>(sizeof(float)));
  const auto step = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels(), saved, qkv));
    ZEROTH_RETURN_IF_ERROR(rotate(1e4));
    return rotate(1e6);
  };
  ASSERT_TRUE(step().ok());
  const std::vector<float> expected = Download(qkv);
  std::unique_ptr<Recording> recording;
  if (device().CanRecord()) {
    ASSERT_TRUE(device().BeginRecording().ok());
    const absl::Status recorded = step();
    absl::StatusOr<std::unique_ptr<Recording>> ended = device().EndRecording();
    ASSERT_TRUE(recorded.ok() && ended.ok()) << recorded << ended.status();
    recording = *std::move(ended);
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(rotate(1e3 + i, 2 + i % 3).ok());
    EXPECT_LE(tables().current_bytes - before.current_bytes, 4 * bytes);
  }
  if (recording != nullptr) {
    ASSERT_TRUE(recording->Play(kernels().stream()).ok());
  } else {
    ASSERT_TRUE(step().ok());
  }
  EXPECT_EQ(Download(qkv), expected);
}

// The angle of a far position, whose fourth digit a table in float would get wrong.
TEST_P(RopeSuite, FarPositions) {
  AttentionShape shape;
  shape.batch = 1;
  shape.seq = 20000;
  shape.heads = 1;
  shape.kv_heads = 1;
  shape.head_dim = 4;
  const Shape packed{shape.batch, shape.seq, shape.packed_dim()};
  const std::vector<float> qkv = RandomNormal(packed.numel());
  RopeArgs args;
  args.shape = shape;
  args.qkv = Upload(packed, qkv);
  ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
  ExpectClose(Download(args.qkv), reference::Rope(shape, 10000.0, false, ToDouble(qkv)), 3e-7, 0,
              "rotated");
}

// Frequencies of heads of 16, or of 12 of their elements, and theta 10000, by the functions of
// transformers' modeling_rope_utils.py in float64. A vector of ones for each pair shows cosine and
// sine of its angle.
struct ScaledCase {
  RopeSpec spec;
  std::vector<double> frequencies;
};

std::vector<ScaledCase> ScaledCases() {
  std::vector<ScaledCase> cases;
  {
    RopeSpec spec;
    spec.type = RopeSpec::Type::kLinear;
    spec.factor = 4.0;
    cases.push_back({spec,
                     {0.25, 0.0790569415042, 0.025, 0.00790569415042, 0.0025, 0.000790569415042,
                      0.00025, 7.90569415042e-05}});
  }
  {
    RopeSpec spec;
    spec.type = RopeSpec::Type::kLlama3;
    spec.factor = 8.0;
    spec.original_context = 256;
    cases.push_back({spec,
                     {1, 0.316227766017, 0.1, 0.00661310631725, 0.00125, 0.000395284707521,
                      0.000125, 3.95284707521e-05}});
  }
  {
    RopeSpec spec;
    spec.type = RopeSpec::Type::kYarn;
    spec.factor = 4.0;
    spec.original_context = 512;
    spec.attention_factor = 1.25;
    cases.push_back({spec,
                     {1, 0.256935059889, 0.0625, 0.0138349647632, 0.0025, 0.000790569415042,
                      0.00025, 7.90569415042e-05}});
  }
  {
    RopeSpec spec;
    spec.type = RopeSpec::Type::kYarn;
    spec.factor = 16.0;
    spec.original_context = 4096;
    spec.beta_fast = 20.0;
    spec.beta_slow = 2.0;
    spec.truncate = false;
    cases.push_back({spec,
                     {1, 0.316227766017, 0.1, 0.0316227766017, 0.00543578203699, 0.000236627556908,
                      6.25e-05, 1.97642353761e-05}});
  }
  // transformers' formula by hand, with the divisors of sequences within the original context and
  // beyond it.
  for (const double original : {30.0, 29.0}) {
    RopeSpec spec;
    spec.type = RopeSpec::Type::kLongrope;
    spec.original_context = original;
    spec.rotated_share = 0.75;
    spec.attention_factor = 1.5;
    spec.factors = {1.0, 1.25, 1.5, 2.0, 2.5, 4.0};
    spec.long_factors = {1.0, 2.0, 4.0, 8.0, 16.0, 32.0};
    const std::vector<double>& divisors = original < 30 ? spec.long_factors : spec.factors;
    std::vector<double> frequencies;
    for (size_t i = 0; i < divisors.size(); ++i) {
      frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / 12) / divisors[i]);
    }
    cases.push_back({spec, frequencies});
  }
  return cases;
}

TEST_P(RopeSuite, ScaledFrequenciesAreThoseOfTransformers) {
  for (const ScaledCase& expected : ScaledCases()) {
    SCOPED_TRACE(static_cast<int>(expected.spec.type));
    const AttentionShape shape{1, 30, 1, 1, 16};
    const Shape packed{shape.batch, shape.seq, shape.packed_dim()};
    // Elements that are not rotated stay 0.5.
    std::vector<double> ones(static_cast<size_t>(packed.numel()), 0.5);
    const int64_t pairs = static_cast<int64_t>(expected.frequencies.size());
    std::vector<double> rotated = ones;
    for (int64_t position = 0; position < shape.seq; ++position) {
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(position) * expected.frequencies[i];
        const double length = expected.spec.attention_factor;
        for (const int64_t head : {0, 16}) {
          const int64_t at = position * shape.packed_dim() + head + i;
          ones[at] = 1.0;
          ones[at + pairs] = 0.0;
          rotated[at] = length * std::cos(angle);
          rotated[at + pairs] = length * std::sin(angle);
        }
      }
    }
    RopeArgs args;
    args.shape = shape;
    args.qkv = Upload(packed, std::vector<float>(ones.begin(), ones.end()));
    args.spec = expected.spec;
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    ExpectClose(Download(args.qkv), rotated, 1e-6, 1e-6, "rotated");
  }
}

TEST_P(RopeSuite, RefusesWhatDoesNotFit) {
  RopeArgs args;
  args.shape = {1, 2, 3, 2, 4};
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "3 heads and 2 kv_heads"});
  args.shape = {1, 2, 2, 1, 3};
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  ExpectInvalid(kernels::Rope(kernels(), args),
                {"Rope", "head_dim 3, of which 3 elements are rotated, expected an even"});
  args.shape = {1, 2, 2, 1, 4};
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "qkv is [1, 2, 12]", "[2, 16]"});
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  args.spec.theta = 0;
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "theta"});
  args.spec.theta = 1e4;
  args.spec.type = RopeSpec::Type::kLongrope;
  args.spec.factors = {1.0, 1.0};
  args.spec.long_factors = {1.0};
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "factors are 1", "2 pairs"});
}

INSTANTIATE_TEST_SUITE_P(Devices, RopeSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
