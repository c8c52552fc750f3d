// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The fixture of the shared kernel tests: a device by name, tensors from and to the host, random
// values. Every device passes the same suites. A test program runs the suites of the operations
// that it links, on the devices that it links.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The parameter is the device type; "cuda/flash" stands for AttentionBackend::kFlash, while plain
// "cuda" computes attention by cuDNN if there is one.
class KernelsSuite : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  // Opens the device anew, with these options and the parameter's attention.
  void Open(KernelOptions options);

  Device& device() { return *device_; }
  Kernels& kernels() { return *kernels_; }

  // Uploads values as fp32, or rounded to nearest even as a 16-bit float.
  Tensor Upload(const Shape& shape, const std::vector<float>& values,
                DType dtype = DType::kFloat32);
  Tensor UploadTokens(const Shape& shape, const std::vector<int32_t>& values);
  // Returns a tensor of NaNs, in which an element that a kernel forgets to write shows.
  Tensor Unwritten(const Shape& shape, DType dtype = DType::kFloat32);
  // Returns the values of an fp32, bf16 or fp16 tensor.
  std::vector<float> Download(const Tensor& tensor);

  // Returns the error of a call, or else of its data, which shows once the stream has run it.
  absl::Status WhenDone(const absl::Status& enqueued) {
    return enqueued.ok() ? kernels().stream().Synchronize() : enqueued;
  }

  // Returns a number that is uniform on [low, high].
  int64_t RandomSize(int64_t low, int64_t high);
  std::vector<float> RandomNormal(int64_t count, float stddev = 1.0f);
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_{20220520};
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
};

// Returns the device types whose kernels are linked in; suites are instantiated for these.
std::vector<std::string> TestedDevices();

// The types of activations, parameters and gradients of parameters.
inline constexpr DType kElementTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// The types that operands and results of one call may have.
struct TypePair {
  DType dtype = DType::kFloat32;
  DType grad_dtype = DType::kFloat32;
};
inline constexpr TypePair kTypePairs[] = {
    {DType::kFloat32, DType::kFloat32},  {DType::kBFloat16, DType::kFloat32},
    {DType::kFloat32, DType::kBFloat16}, {DType::kBFloat16, DType::kBFloat16},
    {DType::kFloat16, DType::kFloat32},  {DType::kFloat32, DType::kFloat16},
    {DType::kFloat16, DType::kFloat16}};

std::vector<double> ToDouble(const std::vector<float>& values);

// Expects |actual - expected| <= relative * max|expected| + absolute for every element; NaN fails.
// `what` names the values.
void ExpectClose(const std::vector<float>& actual, const std::vector<double>& expected,
                 double relative, double absolute, const std::string& what);

// Expects InvalidArgument with a message that contains every one of `words`.
void ExpectInvalid(const absl::Status& status, const std::vector<std::string>& words);

// Expects |analytic - numeric| to be small against max|analytic|, where numeric[i] is the central
// difference of `loss` at x[i]. `loss` is a float64 reference.
template <typename Loss>
void ExpectGradient(const Loss& loss, std::vector<double> x, const std::vector<double>& analytic) {
  ASSERT_EQ(x.size(), analytic.size());
  constexpr double kStep = 1e-5;
  double largest = 0.0;
  for (double g : analytic) largest = std::max(largest, std::abs(g));
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = loss(x);
    x[i] = at - kStep;
    const double below = loss(x);
    x[i] = at;
    ASSERT_NEAR((above - below) / (2 * kStep), analytic[i], 1e-6 * largest + 1e-8)
        << "element " << i;
  }
}

}  // namespace zeroth
