// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/testing/attention_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class AttentionSuite : public KernelsSuite {
 protected:
  struct Forward {
    Tensor qkv;
    Tensor starts;
    Tensor out;
    Tensor lse;
  };

  // Runs forward on `qkv`, rounded to `dtype`; every output starts as NaN.
  Forward RunForward(const AttentionShape& shape, const std::vector<float>& qkv,
                     DType dtype = DType::kFloat32, const std::vector<int32_t>& starts = {});
  Tensor RunBackward(const AttentionShape& shape, const std::vector<float>& dout,
                     const Forward& forward);
  // Compares forward and backward of random values with the definition.
  void Check(const AttentionShape& shape, float stddev, DType dtype,
             const std::vector<int32_t>& starts = {});
  // The same for every element type.
  void CheckTypes(const AttentionShape& shape, float stddev,
                  const std::vector<int32_t>& starts = {});
  // Returns the starts of documents of random lengths.
  std::vector<int32_t> RandomStarts(const AttentionShape& shape, int64_t longest);
};

namespace {

int64_t QkvCount(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.packed_dim();
}
int64_t OutCount(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads * shape.head_dim;
}

std::string ToString(const AttentionShape& shape) {
  return absl::StrCat("batch ", shape.batch, ", seq ", shape.seq, ", heads ", shape.heads, " / ",
                      shape.kv_heads, ", head_dim ", shape.head_dim, ", window ", shape.window,
                      ", scale ", shape.scale, ", cap ", shape.cap);
}

// The allowed error, relative to the largest element. fp32: rounding of a dot product of head_dim
// terms, of the exponential's argument and of sums over the sequence; measured errors are below
// 1e-6. bf16: forward may round the probabilities before it multiplies the values by them (half an
// ulp, 2^-9 of a probability on average), backward those and the scores' gradients too, and it
// reads an output that was rounded. fp16 rounds eight times finer.
double ForwardTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kFloat16 ? 5e-4 : 4e-3;
}
double BackwardTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kFloat16 ? 2e-3 : 1.6e-2;
}

}  // namespace

AttentionSuite::Forward AttentionSuite::RunForward(const AttentionShape& shape,
                                                   const std::vector<float>& qkv, DType dtype,
                                                   const std::vector<int32_t>& starts) {
  Forward forward;
  if (!starts.empty()) forward.starts = UploadTokens({shape.batch, shape.seq}, starts);
  forward.qkv = Upload({shape.batch, shape.seq, shape.packed_dim()}, qkv, dtype);
  forward.out = Unwritten({shape.batch, shape.seq, shape.heads * shape.head_dim}, dtype);
  forward.lse = Unwritten({shape.batch, shape.heads, shape.seq});
  AttentionArgs args;
  args.shape = shape;
  args.qkv = forward.qkv;
  args.starts = forward.starts;
  args.out = forward.out;
  args.lse = forward.lse;
  const absl::Status status = kernels::Attention(kernels(), args);
  EXPECT_TRUE(status.ok()) << status;
  return forward;
}

Tensor AttentionSuite::RunBackward(const AttentionShape& shape, const std::vector<float>& dout,
                                   const Forward& forward) {
  AttentionBackwardArgs args;
  args.shape = shape;
  args.dout = Upload(forward.out.shape(), dout, forward.out.dtype());
  args.qkv = forward.qkv;
  args.starts = forward.starts;
  args.out = forward.out;
  args.lse = forward.lse;
  args.dqkv = Unwritten(forward.qkv.shape(), forward.qkv.dtype());
  const absl::Status status = kernels::AttentionBackward(kernels(), args);
  EXPECT_TRUE(status.ok()) << status;
  return args.dqkv;
}

void AttentionSuite::Check(const AttentionShape& shape, float stddev, DType dtype,
                           const std::vector<int32_t>& starts) {
  SCOPED_TRACE(absl::StrCat(ToString(shape), ", ", DTypeName(dtype)));
  const std::vector<float> qkv = RoundTo(dtype, RandomNormal(QkvCount(shape), stddev));
  const std::vector<float> dout = RoundTo(dtype, RandomNormal(OutCount(shape)));
  const Forward forward = RunForward(shape, qkv, dtype, starts);
  const reference::AttentionOutput expected = reference::Attention(shape, ToDouble(qkv), starts);
  ExpectCloseIn(dtype, Download(forward.out), expected.out, ForwardTolerance(dtype), 1e-12, "out");
  ExpectClose(Download(forward.lse), expected.lse, ForwardTolerance(DType::kFloat32), 1e-6, "lse");
  ExpectCloseIn(dtype, Download(RunBackward(shape, dout, forward)),
                reference::AttentionBackward(shape, ToDouble(dout), ToDouble(qkv), starts),
                BackwardTolerance(dtype), 1e-6, "dqkv");
}

void AttentionSuite::CheckTypes(const AttentionShape& shape, float stddev,
                                const std::vector<int32_t>& starts) {
  for (const DType dtype : kElementTypes) {
    Check(shape, stddev, dtype, starts);
    if (HasFatalFailure()) return;
  }
}

std::vector<int32_t> AttentionSuite::RandomStarts(const AttentionShape& shape, int64_t longest) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; static_cast<int64_t>(ids.size()) < shape.batch * shape.seq; ++id) {
    // Only a change of number matters, so numbers may recur.
    ids.insert(ids.end(), static_cast<size_t>(RandomSize(1, longest)), id % 3);
  }
  ids.resize(static_cast<size_t>(shape.batch * shape.seq));
  return DocumentStarts(ids, shape.batch);
}

TEST_P(AttentionSuite, RandomShapes) {
  for (int i = 0; i < 25; ++i) {
    AttentionShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = RandomSize(1, 150);
    shape.kv_heads = RandomSize(1, 3);
    shape.heads = shape.kv_heads * RandomSize(1, 3);
    shape.head_dim = RandomSize(1, 40);
    CheckTypes(shape, 1.0f);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionSuite, RandomWindowsAndDocuments) {
  for (int i = 0; i < 24; ++i) {
    AttentionShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = RandomSize(1, 300);
    shape.kv_heads = RandomSize(1, 2);
    shape.heads = shape.kv_heads * RandomSize(1, 2);
    shape.head_dim = i % 2 == 0 ? 8 * RandomSize(1, 4) : RandomSize(1, 20);
    if (i % 3 != 0) shape.window = RandomSize(1, 100);
    std::vector<int32_t> starts;
    if (i % 3 != 1) starts = RandomStarts(shape, i % 4 == 0 ? 10 : 200);
    CheckTypes(shape, 1.0f, starts);
    if (HasFatalFailure()) return;
  }
}

// Scores from far below the cap to far above, alone and with windows and documents.
TEST_P(AttentionSuite, CappedAndScaledScores) {
  for (int i = 0; i < 24; ++i) {
    AttentionShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = RandomSize(1, 200);
    shape.kv_heads = RandomSize(1, 2);
    shape.heads = shape.kv_heads * RandomSize(1, 2);
    shape.head_dim = i % 2 == 0 ? 8 * RandomSize(1, 9) : RandomSize(1, 40);
    if (i % 4 != 0) shape.scale = 0.05f * static_cast<float>(RandomSize(1, 12));
    if (i % 6 != 5) shape.cap = 0.5f * static_cast<float>(RandomSize(1, 100));
    if (i % 3 != 0) shape.window = RandomSize(1, 100);
    std::vector<int32_t> starts;
    if (i % 3 != 1) starts = RandomStarts(shape, 90);
    CheckTypes(shape, i % 5 == 0 ? 3.0f : 1.0f, starts);
    if (HasFatalFailure()) return;
  }
  AttentionShape empty{2, 0, 2, 1, 4};
  empty.cap = 5.0f;
  CheckTypes(empty, 1.0f);
}

// A cap bounds scores of many hundreds, and keeps NaN.
TEST_P(AttentionSuite, ACapBoundsLargeScores) {
  AttentionShape shape{1, 100, 2, 1, 16};
  shape.cap = 2.0f;
  for (const DType dtype : kElementTypes) {
    std::vector<float> qkv = RoundTo(dtype, RandomNormal(QkvCount(shape), 20.0f));
    const Forward forward = RunForward(shape, qkv, dtype);
    const reference::AttentionOutput expected = reference::Attention(shape, ToDouble(qkv));
    ExpectCloseIn(dtype, Download(forward.out), expected.out, ForwardTolerance(dtype), 0.0, "out");
    for (const float lse : Download(forward.lse)) EXPECT_LT(lse, 2.0f + std::log(101.0f));
    qkv[40 * shape.packed_dim() + 2 * shape.head_dim] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out = Download(RunForward(shape, qkv, dtype).out);
    for (int64_t t = 0; t < shape.seq; ++t) EXPECT_EQ(std::isnan(out[t * 32]), t >= 40) << t;
  }
}

// Windows and documents that begin just before, at and just after the edge of a tile.
TEST_P(AttentionSuite, WindowsAndDocumentsAroundTileEdges) {
  for (const int64_t edge : {1, 2, 31, 32, 33, 63, 64, 65, 128, 200}) {
    AttentionShape shape{1, 200, 2, 1, 16};
    std::vector<int32_t> ids(200, 0);
    std::fill(ids.begin() + std::min<int64_t>(edge, 200), ids.end(), 1);
    CheckTypes(shape, 1.0f, DocumentStarts(ids, 1));
    shape.window = edge;
    CheckTypes(shape, 1.0f);
    if (HasFatalFailure()) return;
  }
}

// A document has the same result alone and packed after another document.
TEST_P(AttentionSuite, DocumentsDoNotSeeEachOther) {
  const AttentionShape shape{1, 130, 2, 1, 16};
  std::vector<int32_t> ids(130, 7);
  std::fill(ids.begin() + 70, ids.end(), 3);
  for (const DType dtype : kElementTypes) {
    std::vector<float> qkv = RandomNormal(QkvCount(shape));
    const std::vector<float> dout = RandomNormal(OutCount(shape));
    const auto run = [&] {
      const Forward forward = RunForward(shape, qkv, dtype, DocumentStarts(ids, 1));
      return std::pair(Download(forward.out), Download(RunBackward(shape, dout, forward)));
    };
    const auto [before, gradient_before] = run();
    for (int64_t i = 0; i < 70 * shape.packed_dim(); ++i) qkv[i] += 1.0f;
    const auto [after, gradient_after] = run();
    const int64_t out = 70 * shape.heads * shape.head_dim;
    EXPECT_TRUE(std::equal(before.begin() + out, before.end(), after.begin() + out));
    EXPECT_TRUE(std::equal(gradient_before.begin() + 70 * shape.packed_dim(), gradient_before.end(),
                           gradient_after.begin() + 70 * shape.packed_dim()));
    EXPECT_FALSE(std::equal(before.begin(), before.begin() + out, after.begin()));
  }
}

TEST_P(AttentionSuite, HeadDimsOfModels) {
  for (const int64_t head_dim : {10, 15, 16, 64, 80, 128})
    CheckTypes({1, 131, 2, 1, head_dim}, 1.0f);
}

TEST_P(AttentionSuite, SequencesAroundTileEdges) {
  for (const int64_t seq : {1, 63, 64, 65, 127, 128, 129, 192}) CheckTypes({1, seq, 2, 2, 8}, 1.5f);
}

TEST_P(AttentionSuite, EmptyShapes) {
  CheckTypes({0, 5, 2, 1, 4}, 1.0f);
  CheckTypes({2, 0, 2, 1, 4}, 1.0f);
}

TEST_P(AttentionSuite, LargeScoresDoNotOverflow) {
  const AttentionShape shape{1, 100, 2, 1, 16};
  for (const DType dtype : kElementTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    // Scores of many hundreds.
    const std::vector<float> qkv = RoundTo(dtype, RandomNormal(QkvCount(shape), 20.0f));
    const Forward forward = RunForward(shape, qkv, dtype);
    const reference::AttentionOutput expected = reference::Attention(shape, ToDouble(qkv));
    // A score of 1600 is known to 1e-4, and so is the exponential's relative size.
    ExpectCloseIn(dtype, Download(forward.out), expected.out, 2e-3, 0.0, "out");
    for (const float value : Download(RunBackward(shape, RandomNormal(OutCount(shape)), forward))) {
      ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST_P(AttentionSuite, LaterTokensChangeNothingEarlier) {
  const AttentionShape shape{1, 90, 2, 1, 12};
  for (const DType dtype : kElementTypes) {
    std::vector<float> qkv = RandomNormal(QkvCount(shape));
    const std::vector<float> before = Download(RunForward(shape, qkv, dtype).out);
    const int64_t changed = 70;
    for (int64_t i = changed * shape.packed_dim(); i < QkvCount(shape); ++i) qkv[i] = 1e3f;
    const std::vector<float> after = Download(RunForward(shape, qkv, dtype).out);
    const int64_t same = changed * shape.heads * shape.head_dim;
    EXPECT_EQ(std::vector<float>(before.begin(), before.begin() + same),
              std::vector<float>(after.begin(), after.begin() + same));
  }
}

TEST_P(AttentionSuite, NanIsNotHidden) {
  const AttentionShape shape{1, 80, 1, 1, 8};
  for (const DType dtype : kElementTypes) {
    std::vector<float> qkv = RandomNormal(QkvCount(shape));
    const int64_t token = 40;
    qkv[token * shape.packed_dim() + shape.head_dim] =
        std::numeric_limits<float>::quiet_NaN();  // in a key
    const std::vector<float> out = Download(RunForward(shape, qkv, dtype).out);
    for (int64_t t = 0; t < shape.seq; ++t)
      EXPECT_EQ(std::isnan(out[t * shape.head_dim]), t >= token) << t;
  }
}

TEST_P(AttentionSuite, LseIsOptional) {
  const AttentionShape shape{2, 70, 2, 1, 16};
  for (const DType dtype : kElementTypes) {
    const Forward with_lse = RunForward(shape, RandomNormal(QkvCount(shape)), dtype);
    AttentionArgs args;
    args.shape = shape;
    args.qkv = with_lse.qkv;
    args.out = Unwritten(with_lse.out.shape(), dtype);
    ASSERT_TRUE(kernels::Attention(kernels(), args).ok());
    EXPECT_EQ(Download(args.out), Download(with_lse.out));
  }
}

TEST_P(AttentionSuite, SameBitsEveryTime) {
  const AttentionShape shape{2, 100, 4, 2, 20};
  for (const DType dtype : kElementTypes) {
    const std::vector<float> qkv = RandomNormal(QkvCount(shape));
    const std::vector<float> dout = RandomNormal(OutCount(shape));
    const Forward first = RunForward(shape, qkv, dtype);
    const std::vector<float> first_gradient = Download(RunBackward(shape, dout, first));
    for (int i = 0; i < 3; ++i) {
      const Forward again = RunForward(shape, qkv, dtype);
      EXPECT_EQ(Download(again.out), Download(first.out));
      EXPECT_EQ(Download(RunBackward(shape, dout, again)), first_gradient);
    }
  }
}

// The order of sums is free, their values are not. Only cuDNN takes the freedom.
TEST_P(AttentionSuite, WithoutDeterminism) {
  KernelOptions options;
  options.attention_determinism = false;
  if (device().type() == "cpu") {
    EXPECT_TRUE(absl::IsUnimplemented(KernelRegistry::Check("cpu", options)));
    return;
  }
  Open(options);
  for (const AttentionShape& shape :
       {AttentionShape{2, 200, 4, 2, 64}, AttentionShape{1, 129, 3, 3, 128},
        AttentionShape{3, 64, 6, 1, 40}}) {
    CheckTypes(shape, 1.0f);
  }
}

TEST_P(AttentionSuite, WorkspaceGrowsLinearlyWithTheSequence) {
  const auto peak = [&](int64_t seq) {
    const AttentionShape shape{1, seq, 1, 1, 8};
    const Forward forward = RunForward(shape, RandomNormal(QkvCount(shape)));
    RunBackward(shape, RandomNormal(OutCount(shape)), forward);
    return device().allocator().stats()[MemoryCategory::kWorkspace].peak_bytes;
  };
  const int64_t at_512 = peak(512);
  const int64_t at_2048 = peak(2048);
  EXPECT_LE(at_2048, 4 * at_512);
  EXPECT_LT(at_2048, int64_t{2048} * 2048 * 4 / 4);
}

TEST_P(AttentionSuite, RefusesWhatDoesNotFit) {
  AttentionArgs args;
  args.shape = {1, 4, 3, 2, 8};
  args.qkv = Unwritten({1, 4, args.shape.packed_dim()});
  args.out = Unwritten({1, 4, 24});
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "kv_heads", "3", "2"});
  args.shape.kv_heads = 1;
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "qkv"});
  args.qkv = Unwritten({1, 4, args.shape.packed_dim()});
  args.out = Unwritten({1, 4, 23});
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "out"});
  args.out = Unwritten({1, 4, 24}, DType::kBFloat16);
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "out", "bf16", "fp32"});
  args.qkv = Unwritten({1, 4, args.shape.packed_dim()}, DType::kBFloat16);
  args.lse = Unwritten({1, 3, 4}, DType::kBFloat16);
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "lse", "bf16", "fp32"});
  args.starts = Unwritten({4});
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "starts"});
  args.starts = Tensor();
  args.shape.window = -1;
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "shape", "negative"});
  args.shape.window = 0;
  args.shape.cap = -1.0f;
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "shape", "cap of -1"});
  args.shape.cap = std::numeric_limits<float>::infinity();
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "shape", "cap of inf"});
  args.shape.cap = 0;
  args.shape.scale = std::nanf("");
  ExpectInvalid(kernels::Attention(kernels(), args), {"Attention", "shape", "scale of nan"});
}

TEST(AttentionReference, BackwardIsTheGradientOfForward) {
  AttentionShape plain{2, 5, 4, 2, 3};
  AttentionShape capped = plain;
  capped.scale = 0.9f;
  capped.cap = 1.5f;
  for (const AttentionShape& shape : {plain, capped}) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    std::vector<double> qkv(static_cast<size_t>(QkvCount(shape)));
    std::vector<double> dout(static_cast<size_t>(OutCount(shape)));
    for (double& x : qkv) x = normal(random);
    for (double& x : dout) x = normal(random);
    const auto loss = [&](const std::vector<double>& x) {
      const std::vector<double> out = reference::Attention(shape, x).out;
      double sum = 0.0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    ExpectGradient(loss, qkv, reference::AttentionBackward(shape, dout, qkv));
  }
}

namespace {

// If a library may compute attention, our own kernels are tested as well.
std::vector<std::string> TestedAttention() {
  std::vector<std::string> tested;
  for (const std::string& device : TestedDevices()) {
    tested.push_back(device);
    KernelOptions options;
    options.attention = AttentionBackend::kCudnn;
    if (KernelRegistry::Check(device, options).ok()) tested.push_back(device + "/flash");
  }
  return tested;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Devices, AttentionSuite, testing::ValuesIn(TestedAttention()),
                         [](const auto& instance) {
                           return absl::StrReplaceAll(instance.param, {{"/", "_"}});
                         });

}  // namespace zeroth
