// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/rope/rope_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class RopeSuite : public KernelsSuite {};

// Sequence lengths, head sizes and bases change between the calls, so that a table kept from an
// earlier one would show.
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
    args.theta = i % 2 == 0 ? 10000.0f : 500000.0f;
    ASSERT_TRUE(kernels::Rope(kernels(), args).ok());
    const std::vector<float> rotated = Download(args.qkv);
    ExpectCloseIn(dtype, rotated, reference::Rope(shape, args.theta, false, ToDouble(qkv)), 3e-7, 0,
                  "rotated");
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
                  reference::Rope(shape, args.theta, true, ToDouble(rotated)), 3e-7, 0,
                  "rotated back");
    // Rounding the rotated pair moves neither of its elements by more than its length does.
    const double rounding = dtype == DType::kFloat32   ? 5e-7
                            : dtype == DType::kFloat16 ? 0x1p-10
                                                       : 0x1p-7;
    ExpectClose(Download(args.qkv), ToDouble(qkv), rounding, 0, "rotated there and back");
  }
}

// The angle of a far position: what a table in float would get wrong in the fourth digit.
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

TEST_P(RopeSuite, RefusesWhatDoesNotFit) {
  RopeArgs args;
  args.shape = {1, 2, 3, 2, 4};
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "3 heads and 2 kv_heads"});
  args.shape = {1, 2, 2, 1, 3};
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "head_dim 3, expected an even one"});
  args.shape = {1, 2, 2, 1, 4};
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "qkv is [1, 2, 12]", "[2, 16]"});
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  args.theta = 0;
  ExpectInvalid(kernels::Rope(kernels(), args), {"Rope", "theta"});
}

INSTANTIATE_TEST_SUITE_P(Devices, RopeSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
