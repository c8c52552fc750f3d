// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/sinks.h"
#include "zeroth/kernels/attention/testing/attention_reference.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class SinksSuite : public KernelsSuite {
 protected:
  // Compares the three operations together with attention with a sink: its result, and all its
  // gradients.
  void Check(const AttentionShape& shape, DType dtype, const std::vector<int32_t>& starts);
};

namespace {

// The tolerances of Attention, and half an ulp more, since the result is rounded twice.
double ForwardTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kFloat16 ? 1e-3 : 8e-3;
}
double BackwardTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 4e-6 : dtype == DType::kFloat16 ? 3e-3 : 2.4e-2;
}

}  // namespace

void SinksSuite::Check(const AttentionShape& shape, DType dtype,
                       const std::vector<int32_t>& starts) {
  SCOPED_TRACE(absl::StrCat("batch ", shape.batch, ", seq ", shape.seq, ", heads ", shape.heads,
                            " / ", shape.kv_heads, ", head_dim ", shape.head_dim, ", window ",
                            shape.window, starts.empty() ? "" : ", documents", ", ",
                            DTypeName(dtype)));
  const int64_t rows = shape.batch * shape.seq;
  const int64_t width = shape.heads * shape.head_dim;
  const std::vector<float> qkv = RoundTo(dtype, RandomNormal(rows * shape.packed_dim()));
  const std::vector<float> dout = RoundTo(dtype, RandomNormal(rows * width));
  const std::vector<float> sinks = RoundTo(dtype, RandomNormal(shape.heads, 3.0f));

  AttentionArgs args;
  args.shape = shape;
  args.qkv = Upload({shape.batch, shape.seq, shape.packed_dim()}, qkv, dtype);
  args.out = Unwritten({shape.batch, shape.seq, width}, dtype);
  args.lse = Unwritten({shape.batch, shape.heads, shape.seq});
  if (!starts.empty()) args.starts = UploadTokens({shape.batch, shape.seq}, starts);
  ASSERT_TRUE(kernels::Attention(kernels(), args).ok());
  const Tensor of_heads = Upload({shape.heads}, sinks, dtype);
  ASSERT_TRUE(kernels::AttentionSinks(kernels(), {of_heads, args.out, args.lse}).ok());
  const reference::AttentionOutput expected =
      reference::Attention(shape, ToDouble(qkv), starts, ToDouble(sinks));
  ExpectCloseIn(dtype, Download(args.out), expected.out, ForwardTolerance(dtype), 1e-12, "out");
  ExpectClose(Download(args.lse), expected.lse, 4e-6, 1e-6, "lse");

  const Tensor gradient = Upload({shape.batch, shape.seq, width}, dout, dtype);
  const Tensor of_rows = Unwritten({rows, shape.heads});
  const Tensor dsinks = Unwritten({shape.heads});
  ASSERT_TRUE(
      kernels::SinkGradient(kernels(), {of_heads, gradient, args.out, args.lse, of_rows}).ok());
  ASSERT_TRUE(kernels::BiasGradient(kernels(), of_rows, dsinks, /*accumulate=*/false).ok());
  const Tensor dqkv = Unwritten(args.qkv.shape(), dtype);
  ASSERT_TRUE(kernels::AttentionBackward(
                  kernels(), {shape, gradient, args.qkv, args.starts, args.out, args.lse, dqkv})
                  .ok());
  std::vector<double> expected_dsinks(sinks.size());
  const std::vector<double> expected_dqkv = reference::AttentionBackward(
      shape, ToDouble(dout), ToDouble(qkv), starts, ToDouble(sinks), &expected_dsinks);
  ExpectCloseIn(dtype, Download(dqkv), expected_dqkv, BackwardTolerance(dtype), 1e-6, "dqkv");
  // Terms of both signs cancel.
  ExpectClose(Download(dsinks), expected_dsinks, BackwardTolerance(dtype),
              BackwardTolerance(dtype) * 5, "dsinks");
}

TEST_P(SinksSuite, AttentionWithSinksByItsDefinition) {
  for (int i = 0; i < 20; ++i) {
    AttentionShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = RandomSize(1, 150);
    shape.kv_heads = RandomSize(1, 2);
    shape.heads = shape.kv_heads * RandomSize(1, 3);
    // 64 as in gpt-oss, another size that cuDNN and tensor cores take, and any.
    shape.head_dim = i % 3 == 0 ? 64 : i % 3 == 1 ? 16 : RandomSize(1, 70);
    if (i % 4 < 2) shape.window = RandomSize(1, 100);
    std::vector<int32_t> starts;
    if (i % 5 == 0) {
      std::vector<int32_t> ids;
      for (int64_t t = 0; t < shape.batch * shape.seq; ++t) {
        ids.push_back(t == 0 ? 0 : ids.back() + static_cast<int32_t>(RandomSize(1, 40) == 1));
      }
      starts = DocumentStarts(ids, shape.batch);
    }
    for (const DType dtype : kElementTypes) {
      Check(shape, dtype, starts);
      if (HasFailure()) return;
    }
  }
}

// A sink that no row notices, and one that takes everything.
TEST_P(SinksSuite, FarSinksStayFinite) {
  const Tensor out = Upload({1, 2}, {3.0f, 3.0f});
  const Tensor lse = Upload({1, 2, 1}, {100.0f, -100.0f});
  ASSERT_TRUE(
      kernels::AttentionSinks(kernels(), {Upload({2}, {-1000.0f, 1000.0f}), out, lse}).ok());
  EXPECT_EQ(Download(out), (std::vector<float>{3.0f, 0.0f}));
  EXPECT_EQ(Download(lse), (std::vector<float>{100.0f, 1000.0f}));
}

TEST_P(SinksSuite, RefusesWhatDoesNotFit) {
  const Tensor lse = Unwritten({2, 3, 4});
  const Tensor out = Unwritten({2, 4, 6});
  const Tensor sinks = Unwritten({3});
  ExpectInvalid(kernels::AttentionSinks(kernels(), {Unwritten({2}), out, lse}),
                {"AttentionSinks", "sinks is [2], expected [3]"});
  ExpectInvalid(kernels::AttentionSinks(kernels(), {sinks, Unwritten({2, 4, 7}), lse}),
                {"out has 7 columns, expected a multiple of 3 heads"});
  ExpectInvalid(kernels::AttentionSinks(kernels(), {Unwritten({3}, DType::kBFloat16), out, lse}),
                {"sinks is bf16, expected fp32 as out"});
  ExpectInvalid(kernels::SinkGradient(kernels(), {sinks, out, out, lse, Unwritten({8, 2})}),
                {"SinkGradient", "gradient is [8, 2], expected [8, 3]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, SinksSuite, testing::ValuesIn(TestedDevices()));

TEST(SinksReference, BackwardIsTheGradientOfForward) {
  const AttentionShape shape{2, 5, 4, 2, 3};
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  std::vector<double> qkv(static_cast<size_t>(shape.batch * shape.seq * shape.packed_dim()));
  std::vector<double> dout(static_cast<size_t>(shape.batch * shape.seq * shape.heads * 3));
  std::vector<double> sinks(4);
  for (std::vector<double>* const values : {&qkv, &dout, &sinks}) {
    for (double& x : *values) x = normal(random);
  }
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& z) {
    const std::vector<double> out = reference::Attention(shape, x, {}, z).out;
    double sum = 0.0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  std::vector<double> dsinks(4);
  const std::vector<double> dqkv =
      reference::AttentionBackward(shape, dout, qkv, {}, sinks, &dsinks);
  ExpectGradient([&](const std::vector<double>& x) { return loss(x, sinks); }, qkv, dqkv);
  ExpectGradient([&](const std::vector<double>& z) { return loss(qkv, z); }, sinks, dsinks);
}

}  // namespace zeroth
