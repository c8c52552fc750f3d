// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/testing/attention_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class CachedAttentionSuite : public KernelsSuite {
 protected:
  // Runs the rows of `qkv` in pieces of these lengths against a cache with room to spare.
  absl::Status RunInPieces(AttentionShape shape, const std::vector<float>& qkv, DType dtype,
                           const std::vector<int64_t>& lengths, std::vector<float>& out,
                           std::vector<float>& lse) {
    CachedAttentionArgs args;
    args.cache = Unwritten({shape.seq + 3, 2 * shape.kv_heads * shape.head_dim}, dtype);
    const int64_t row = shape.packed_dim();
    for (const int64_t length : lengths) {
      args.shape = shape;
      args.shape.seq = length;
      args.qkv = Upload({1, length, row},
                        std::vector<float>(qkv.begin() + args.past * row,
                                           qkv.begin() + (args.past + length) * row),
                        dtype);
      args.out = Unwritten({1, length, shape.heads * shape.head_dim}, dtype);
      args.lse = Unwritten({1, shape.heads, length});
      const absl::Status status = kernels::CachedAttention(kernels(), args);
      if (!status.ok()) return status;
      const std::vector<float> sums = Download(args.lse);
      for (int64_t head = 0; head < shape.heads; ++head) {
        std::copy_n(sums.begin() + head * length, length,
                    lse.begin() + head * shape.seq + args.past);
      }
      const std::vector<float> part = Download(args.out);
      out.insert(out.end(), part.begin(), part.end());
      args.past += length;
    }
    return absl::OkStatus();
  }
};

namespace {

// The tolerances of Attention.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kFloat16 ? 5e-4 : 4e-3;
}

}  // namespace

// Any cut of a sequence into pieces, with grouped heads, windows and widths that do not fill
// vectors.
TEST_P(CachedAttentionSuite, PiecesAreTheWholeSequence) {
  for (int i = 0; i < 30; ++i) {
    AttentionShape shape;
    shape.batch = 1;
    shape.seq = RandomSize(1, 150);
    shape.kv_heads = RandomSize(1, 3);
    shape.heads = shape.kv_heads * RandomSize(1, 3);
    shape.head_dim = RandomSize(1, 70);
    if (i % 3 == 0) shape.window = RandomSize(1, 160);
    if (i % 5 < 2) shape.scale = 0.05f * static_cast<float>(RandomSize(1, 12));
    if (i % 5 > 0) shape.cap = 0.5f * static_cast<float>(RandomSize(1, 20));
    std::vector<int64_t> lengths;
    for (int64_t done = 0; done < shape.seq; done += lengths.back()) {
      lengths.push_back(std::min(shape.seq - done, i % 2 == 0 ? RandomSize(1, 60) : 1));
    }
    const DType dtype = kElementTypes[i % 3];
    SCOPED_TRACE(absl::StrCat("seq ", shape.seq, ", heads ", shape.heads, " / ", shape.kv_heads,
                              ", head_dim ", shape.head_dim, ", window ", shape.window, ", scale ",
                              shape.scale, ", cap ", shape.cap, ", ", DTypeName(dtype)));
    const std::vector<float> qkv = RoundTo(dtype, RandomNormal(shape.seq * shape.packed_dim()));
    std::vector<float> out;
    std::vector<float> lse(static_cast<size_t>(shape.heads * shape.seq));
    const absl::Status status = RunInPieces(shape, qkv, dtype, lengths, out, lse);
    ASSERT_TRUE(status.ok()) << status;
    const reference::AttentionOutput expected = reference::Attention(shape, ToDouble(qkv));
    ExpectCloseIn(dtype, out, expected.out, Tolerance(dtype), 1e-12, "out");
    ExpectClose(lse, expected.lse, Tolerance(DType::kFloat32), 1e-6, "lse");
  }
}

TEST_P(CachedAttentionSuite, RefusesWhatDoesNotFit) {
  CachedAttentionArgs args;
  args.shape = {2, 2, 2, 1, 4};
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"CachedAttention", "batch of 2"});
  args.shape.batch = 1;
  args.qkv = Unwritten({1, 2, args.shape.packed_dim()});
  args.cache = Unwritten({5, 9});
  args.out = Unwritten({1, 2, 8});
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"cache is [5, 9]", "[5, 8]"});
  args.cache = Unwritten({5, 8});
  args.past = 4;
  ExpectInvalid(kernels::CachedAttention(kernels(), args),
                {"past is 4 before 2 new tokens, expected at most 5"});
  args.past = -1;
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"past is -1"});
  args.past = 3;
  args.out = Unwritten({1, 2, 7});
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"CachedAttention", "out"});
  args.out = Unwritten({1, 2, 8}, DType::kBFloat16);
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"out", "bf16", "fp32"});
  args.out = Unwritten({1, 2, 8});
  args.lse = Unwritten({1, 2, 1});
  ExpectInvalid(kernels::CachedAttention(kernels(), args), {"lse is [1, 2, 1]", "[1, 2, 2]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedAttentionSuite, testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
