// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/kernels_suite.h"

#include <limits>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/testing/missing_device.h"

namespace zeroth {
namespace {

// A failed allocation or copy ends the test.
template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) ADD_FAILURE() << value.status();
  ZEROTH_CHECK(value.ok());
  return *std::move(value);
}

}  // namespace

std::vector<std::string> TestedDevices() { return KernelRegistry::DeviceTypes(); }

void KernelsSuite::SetUp() {
  ZEROTH_SKIP_WITHOUT_DEVICE(GetParam().substr(0, GetParam().find('/')));
  Open({});
}

void KernelsSuite::Open(KernelOptions options) {
  const std::vector<std::string> words = absl::StrSplit(GetParam(), '/');
  if (words.size() > 1) {
    ASSERT_EQ(words[1], "flash");
    options.attention = AttentionBackend::kFlash;
  }
  kernels_.reset();  // before the device that it uses
  device_ = ValueOrDie(DeviceRegistry::Create(words[0], DeviceOptions{}));
  device_->BindThread();
  // Suites multiply at odd sizes, for which a device's library may have no algorithm. A CPU's has.
  options.allow_slow_kernels = words[0] != "cpu";
  kernels_ = ValueOrDie(KernelRegistry::Create(*device_, device_->compute_stream(), options));
}

Tensor KernelsSuite::Upload(const Shape& shape, const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kFloat32) {
    return ValueOrDie(
        Tensor::FromHost<float>(*device_, shape, values, MemoryCategory::kActivations));
  }
  if (dtype == DType::kFloat16) {
    std::vector<Float16> rounded;
    for (const float value : values) rounded.push_back(ToFloat16(value));
    return ValueOrDie(
        Tensor::FromHost<Float16>(*device_, shape, rounded, MemoryCategory::kActivations));
  }
  ZEROTH_CHECK(dtype == DType::kBFloat16);
  std::vector<BFloat16> rounded;
  for (const float value : values) rounded.push_back(ToBFloat16(value));
  return ValueOrDie(
      Tensor::FromHost<BFloat16>(*device_, shape, rounded, MemoryCategory::kActivations));
}

Tensor KernelsSuite::UploadTokens(const Shape& shape, const std::vector<int32_t>& values) {
  return ValueOrDie(
      Tensor::FromHost<int32_t>(*device_, shape, values, MemoryCategory::kActivations));
}

Tensor KernelsSuite::Unwritten(const Shape& shape, DType dtype) {
  const size_t count = static_cast<size_t>(shape.numel());
  return Upload(shape, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()), dtype);
}

std::vector<float> KernelsSuite::Download(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) return ValueOrDie(tensor.ToHost<float>());
  std::vector<float> values;
  if (tensor.dtype() == DType::kFloat16) {
    for (const Float16 value : ValueOrDie(tensor.ToHost<Float16>()))
      values.push_back(ToFloat(value));
    return values;
  }
  for (const BFloat16 value : ValueOrDie(tensor.ToHost<BFloat16>()))
    values.push_back(ToFloat(value));
  return values;
}

int64_t KernelsSuite::RandomSize(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

std::vector<float> KernelsSuite::RandomNormal(int64_t count, float stddev) {
  std::normal_distribution<float> normal(0.0f, stddev);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random_);
  return values;
}

std::vector<double> ToDouble(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void ExpectClose(const std::vector<float>& actual, const std::vector<double>& expected,
                 double relative, double absolute, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0.0;
  for (double x : expected) largest = std::max(largest, std::abs(x));
  const double tolerance = relative * largest + absolute;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance)
        << what << ", element " << i;
  }
}

void ExpectInvalid(const absl::Status& status, const std::vector<std::string>& words) {
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& word : words) {
    EXPECT_NE(std::string(status.message()).find(word), std::string::npos)
        << "\"" << word << "\" is missing from: " << status;
  }
}

}  // namespace zeroth
