// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests cases that the shared suite cannot select: every path through the kernels, at the edges of
// their tiles.

#include "zeroth/kernels/attention/flash_attention.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/testing/attention_reference.h"

namespace zeroth::cuda {
namespace {

template <typename T>
T Rounded(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(value);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(value);
  } else {
    return value;
  }
}
template <typename T>
float Widened(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return ToFloat(value);
  }
}

int64_t QkvCount(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.packed_dim();
}
int64_t OutCount(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads * shape.head_dim;
}

std::string Describe(const AttentionShape& shape) {
  return absl::StrCat("batch ", shape.batch, ", seq ", shape.seq, ", heads ", shape.heads, " / ",
                      shape.kv_heads, ", head_dim ", shape.head_dim);
}

struct Outcome {
  std::vector<float> out;
  std::vector<float> lse;
  std::vector<float> dqkv;
};

class AttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
  }

  // Values that T holds.
  template <typename T>
  std::vector<float> RandomNormal(int64_t count, float stddev = 1.0f) {
    std::normal_distribution<float> normal(0.0f, stddev);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = Widened(Rounded<T>(normal(random_)));
    return values;
  }

  // `values` in device memory, after `offset` elements of something else.
  template <typename T>
  Tensor Upload(const std::vector<float>& values, int64_t offset = 0) {
    std::vector<T> stored(static_cast<size_t>(offset), Rounded<T>(7.0f));
    for (const float value : values) stored.push_back(Rounded<T>(value));
    const Tensor whole =
        *Tensor::FromHost<T>(*device_, Shape({static_cast<int64_t>(stored.size())}), stored,
                             MemoryCategory::kActivations);
    return whole.View(offset, Shape({static_cast<int64_t>(values.size())}));
  }
  template <typename T>
  Tensor Unwritten(int64_t count, int64_t offset = 0) {
    return Upload<T>(
        std::vector<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN()),
        offset);
  }
  template <typename T>
  std::vector<float> Download(const Tensor& tensor) {
    const std::vector<T> stored = *tensor.ToHost<T>();
    std::vector<float> values;
    for (const T value : stored) values.push_back(Widened(value));
    return values;
  }

  // Forward and backward, on tensors that begin `offset` elements after an aligned place.
  template <typename T>
  Outcome Run(const AttentionShape& shape, const std::vector<float>& qkv,
              const std::vector<float>& dout, int64_t offset = 0) {
    CudaDevice& device = CudaDevice::From(*device_);
    const LaunchTarget target = {device.compute_stream().handle(),
                                 device.properties().multiprocessors};
    const Tensor input = Upload<T>(qkv, offset);
    const Tensor gradient = Upload<T>(dout, offset);
    const Tensor out = Unwritten<T>(OutCount(shape), offset);
    const Tensor dqkv = Unwritten<T>(QkvCount(shape), offset);
    const Tensor lse = Unwritten<float>(shape.batch * shape.heads * shape.seq);
    const Tensor scratch = Unwritten<float>(AttentionBackwardScratch(shape));
    AttentionCall forward;
    forward.shape = shape;
    forward.dtype = DTypeOf<T>::value;
    forward.qkv = input.raw_data();
    forward.out = out.raw_data();
    forward.lse = lse.data<float>();
    EXPECT_EQ(Attention(forward, target), absl::OkStatus());
    AttentionBackwardCall backward;
    backward.shape = shape;
    backward.dtype = DTypeOf<T>::value;
    backward.dout = gradient.raw_data();
    backward.qkv = input.raw_data();
    backward.out = out.raw_data();
    backward.lse = lse.data<float>();
    backward.dqkv = dqkv.raw_data();
    EXPECT_EQ(AttentionBackward(backward, scratch.data<float>(), target), absl::OkStatus());
    return {Download<T>(out), Download<float>(lse), Download<T>(dqkv)};
  }

  // Compares with the reference. `rms` bounds the error's root mean square relative to the expected
  // values', `worst` the largest error relative to the largest value.
  template <typename T>
  void Check(const AttentionShape& shape, double rms, double worst, int64_t offset = 0) {
    SCOPED_TRACE(Describe(shape));
    const std::vector<float> qkv = RandomNormal<T>(QkvCount(shape));
    const std::vector<float> dout = RandomNormal<T>(OutCount(shape));
    const Outcome actual = Run<T>(shape, qkv, dout, offset);
    const std::vector<double> wide_qkv(qkv.begin(), qkv.end());
    const std::vector<double> wide_dout(dout.begin(), dout.end());
    const reference::AttentionOutput expected = reference::Attention(shape, wide_qkv);
    ExpectClose(actual.out, expected.out, rms, worst, "out");
    ExpectClose(actual.lse, expected.lse, 1e-6, 4e-6, "lse");
    ExpectClose(actual.dqkv, reference::AttentionBackward(shape, wide_dout, wide_qkv), rms, worst,
                "dqkv");
  }

  static void ExpectClose(const std::vector<float>& actual, const std::vector<double>& expected,
                          double rms, double worst, const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    double squares = 0.0;
    double error_squares = 0.0;
    double largest = 0.0;
    for (const double value : expected) {
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      const double error = actual[i] - expected[i];
      ASSERT_LE(std::abs(error), worst * largest + 1e-6)
          << what << " " << i << ": " << actual[i] << ", expected " << expected[i];
      error_squares += error * error;
    }
    EXPECT_LE(std::sqrt(error_squares), rms * std::sqrt(squares) + 1e-6) << what;
  }

  std::shared_ptr<Device> device_;
  std::mt19937_64 random_{20230717};
};

// Half a unit in the last place of 8 bits is 2^-9 of a value, a third of that in the mean. The
// roundings are of out, the probabilities, their gradients and, through delta, out again.
constexpr double kBf16Rms = 3.5e-3;
constexpr double kBf16Worst = 7e-3;
constexpr double kFp16Rms = kBf16Rms / 8;
constexpr double kFp16Worst = kBf16Worst / 8;
// As in the shared suite.
constexpr double kFp32Rms = 2e-6;
constexpr double kFp32Worst = 4e-6;

TEST_F(AttentionTest, TensorCoresAtTileEdges) {
  for (const int64_t seq : {1, 15, 16, 31, 33, 63, 64, 65, 127, 128, 129, 200}) {
    Check<BFloat16>({1, seq, 2, 1, 64}, kBf16Rms, kBf16Worst);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AttentionTest, TensorCoresWithEveryWidth) {
  for (const int64_t head_dim : {8, 40, 56, 64, 72, 80, 96, 104, 120, 128}) {
    Check<BFloat16>({1, 97, 2, 2, head_dim}, kBf16Rms, kBf16Worst);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AttentionTest, WideHeadsAtTileEdges) {
  for (const int64_t seq : {1, 63, 64, 65, 129}) {
    for (const int64_t head_dim : {80, 128}) {
      Check<BFloat16>({1, seq, 2, 1, head_dim}, kBf16Rms, kBf16Worst);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(AttentionTest, GroupsAndBatches) {
  for (const auto& [heads, kv_heads] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {4, 1}, {6, 2}}) {
    Check<BFloat16>({2, 70, heads, kv_heads, 64}, kBf16Rms, kBf16Worst);
    Check<BFloat16>({3, 35, heads, kv_heads, 128}, kBf16Rms, kBf16Worst);
    Check<float>({2, 35, heads, kv_heads, 24}, kFp32Rms, kFp32Worst);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AttentionTest, HalfPrecision) {
  Check<Float16>({1, 131, 4, 2, 64}, kFp16Rms, kFp16Worst);
  Check<Float16>({1, 70, 2, 1, 96}, kFp16Rms, kFp16Worst);
  Check<Float16>({1, 70, 2, 1, 128}, kFp16Rms, kFp16Worst);
  Check<Float16>({1, 70, 2, 1, 20}, kFp16Rms, kFp16Worst);
}

TEST_F(AttentionTest, PlainForEveryOtherWidth) {
  for (const int64_t head_dim : {1, 3, 63, 65, 127, 129, 136, 256, 260}) {
    Check<BFloat16>({1, 70, 2, 1, head_dim}, kBf16Rms, kBf16Worst);
    Check<float>({1, 70, 2, 1, head_dim}, kFp32Rms, kFp32Worst);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AttentionTest, PlainAtTileEdges) {
  for (const int64_t seq : {1, 63, 64, 65, 127, 128, 129}) {
    Check<float>({1, seq, 2, 1, 64}, kFp32Rms, kFp32Worst);
    if (HasFatalFailure()) return;
  }
}

TEST_F(AttentionTest, UnalignedTensors) {
  for (const int64_t offset : {1, 3, 4}) {
    Check<BFloat16>({1, 70, 2, 1, 64}, kBf16Rms, kBf16Worst, offset);
    Check<float>({1, 70, 2, 1, 64}, kFp32Rms, kFp32Worst, offset);
  }
}

// Similar probabilities in far rows, and one key with all the weight, which no average hides.
TEST_F(AttentionTest, SharpScores) {
  const AttentionShape shape{1, 150, 2, 1, 64};
  const std::vector<float> qkv = RandomNormal<BFloat16>(QkvCount(shape), 6.0f);
  const std::vector<float> dout = RandomNormal<BFloat16>(OutCount(shape));
  const Outcome actual = Run<BFloat16>(shape, qkv, dout);
  const reference::AttentionOutput expected =
      reference::Attention(shape, std::vector<double>(qkv.begin(), qkv.end()));
  ExpectClose(actual.out, expected.out, kBf16Rms, kBf16Worst, "out");
  ExpectClose(actual.lse, expected.lse, 1e-5, 1e-5, "lse");
  for (const float value : actual.dqkv) ASSERT_TRUE(std::isfinite(value));
}

TEST_F(AttentionTest, LaterTokensChangeNothingEarlier) {
  const AttentionShape shape{1, 150, 2, 1, 64};
  std::vector<float> qkv = RandomNormal<BFloat16>(QkvCount(shape));
  std::vector<float> dout = RandomNormal<BFloat16>(OutCount(shape));
  const int64_t changed = 101;
  const int64_t out_token = shape.heads * shape.head_dim;
  // No gradient comes back from the tokens that change.
  std::fill(dout.begin() + changed * out_token, dout.end(), 0.0f);
  const Outcome before = Run<BFloat16>(shape, qkv, dout);
  for (int64_t i = changed * shape.packed_dim(); i < QkvCount(shape); ++i) qkv[i] *= -8.0f;
  const Outcome after = Run<BFloat16>(shape, qkv, dout);
  for (int64_t i = 0; i < changed * out_token; ++i) ASSERT_EQ(before.out[i], after.out[i]) << i;
  for (int64_t i = 0; i < changed * shape.packed_dim(); ++i) {
    ASSERT_EQ(before.dqkv[i], after.dqkv[i]) << i;
  }
}

TEST_F(AttentionTest, NanIsNotHidden) {
  const AttentionShape shape{1, 140, 1, 1, 64};
  std::vector<float> qkv = RandomNormal<BFloat16>(QkvCount(shape));
  const int64_t token = 70;
  qkv[token * shape.packed_dim() + shape.head_dim] = std::numeric_limits<float>::quiet_NaN();
  const Outcome outcome = Run<BFloat16>(shape, qkv, RandomNormal<BFloat16>(OutCount(shape)));
  for (int64_t t = 0; t < shape.seq; ++t) {
    EXPECT_EQ(std::isnan(outcome.out[t * shape.head_dim]), t >= token) << t;
    EXPECT_EQ(std::isnan(outcome.lse[t]), t >= token) << t;
  }
}

// The first query sees one key, and their score is minus infinity: no hidden key gets the weight.
TEST_F(AttentionTest, OverflowIsNotHidden) {
  const AttentionShape shape{1, 70, 1, 1, 3};
  std::vector<float> qkv = RandomNormal<float>(QkvCount(shape));
  qkv[0] = 3e38f;
  qkv[static_cast<size_t>(shape.head_dim)] = -3e38f;
  const Outcome outcome = Run<float>(shape, qkv, RandomNormal<float>(OutCount(shape)));
  EXPECT_TRUE(std::isnan(outcome.out[0])) << outcome.out[0];
}

TEST_F(AttentionTest, SameBitsEveryTime) {
  const AttentionShape shape{1, 150, 4, 2, 64};
  const std::vector<float> qkv = RandomNormal<BFloat16>(QkvCount(shape));
  const std::vector<float> dout = RandomNormal<BFloat16>(OutCount(shape));
  const Outcome first = Run<BFloat16>(shape, qkv, dout);
  const Outcome again = Run<BFloat16>(shape, qkv, dout);
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(again.lse, first.lse);
  EXPECT_EQ(again.dqkv, first.dqkv);
}

// A head's result does not depend on the other heads.
TEST_F(AttentionTest, HeadsDoNotMix) {
  const AttentionShape one{1, 90, 1, 1, 64};
  const AttentionShape three{1, 90, 3, 3, 64};
  const std::vector<float> alone = RandomNormal<BFloat16>(QkvCount(one));
  std::vector<float> together = RandomNormal<BFloat16>(QkvCount(three));
  const std::vector<float> dout_alone = RandomNormal<BFloat16>(OutCount(one));
  std::vector<float> dout = RandomNormal<BFloat16>(OutCount(three));
  const int64_t dim = one.head_dim;
  for (int64_t t = 0; t < one.seq; ++t) {
    for (int64_t i = 0; i < dim; ++i) {
      for (int64_t part = 0; part < 3; ++part) {
        together[t * three.packed_dim() + (3 * part + 1) * dim + i] =
            alone[t * one.packed_dim() + part * dim + i];
      }
      dout[(t * 3 + 1) * dim + i] = dout_alone[t * dim + i];
    }
  }
  const Outcome expected = Run<BFloat16>(one, alone, dout_alone);
  const Outcome actual = Run<BFloat16>(three, together, dout);
  for (int64_t t = 0; t < one.seq; ++t) {
    ASSERT_EQ(actual.lse[three.seq + t], expected.lse[t]);
    for (int64_t i = 0; i < dim; ++i) {
      ASSERT_EQ(actual.out[(t * 3 + 1) * dim + i], expected.out[t * dim + i]);
      for (int64_t part = 0; part < 3; ++part) {
        ASSERT_EQ(actual.dqkv[t * three.packed_dim() + (3 * part + 1) * dim + i],
                  expected.dqkv[t * one.packed_dim() + part * dim + i]);
      }
    }
  }
}

TEST_F(AttentionTest, EmptyShapes) {
  for (const AttentionShape& shape :
       {AttentionShape{0, 5, 2, 1, 64}, AttentionShape{2, 0, 2, 1, 64}}) {
    EXPECT_EQ(AttentionBackwardScratch(shape), 0);
    EXPECT_TRUE(Run<BFloat16>(shape, {}, {}).out.empty());
  }
}

TEST_F(AttentionTest, LseIsOptional) {
  const AttentionShape shape{1, 70, 2, 1, 64};
  const std::vector<float> qkv = RandomNormal<BFloat16>(QkvCount(shape));
  const Outcome expected = Run<BFloat16>(shape, qkv, RandomNormal<BFloat16>(OutCount(shape)));
  CudaDevice& device = CudaDevice::From(*device_);
  const Tensor input = Upload<BFloat16>(qkv);
  const Tensor out = Unwritten<BFloat16>(OutCount(shape));
  AttentionCall call;
  call.shape = shape;
  call.dtype = DType::kBFloat16;
  call.qkv = input.raw_data();
  call.out = out.raw_data();
  ASSERT_EQ(
      Attention(call, {device.compute_stream().handle(), device.properties().multiprocessors}),
      absl::OkStatus());
  EXPECT_EQ(Download<BFloat16>(out), expected.out);
}

}  // namespace
}  // namespace zeroth::cuda
