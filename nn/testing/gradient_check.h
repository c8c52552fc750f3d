// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks an operation's backward against what its forward does: the derivative along a random
// direction, by central differences. Kernels are tested against references elsewhere; this tests
// how operations wire them together.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/tape.h"

namespace zeroth::testing {

// A device with kernels, a tape and a context on it. Aborts if they cannot be made.
struct Bench {
  explicit Bench(const std::string& device_type = "cpu");

  std::shared_ptr<Device> device;
  std::unique_ptr<Kernels> kernels;
  Tape tape;
  std::unique_ptr<Context> context;

  Tensor Upload(const Shape& shape, const std::vector<float>& values,
                DType dtype = DType::kFloat32);
  // Standard normal times `scale`; every call draws anew.
  std::vector<float> Draw(int64_t count, float scale = 1.0f);
  // Gives a parameter storage: drawn values, and gradients on demand.
  void Own(Parameter& parameter, float scale = 1.0f, DType dtype = DType::kFloat32);

 private:
  uint64_t draws_ = 0;
};

// `forward` maps the inputs to one output and may use the parameters. Expects (through GoogleTest)
// that for the loss sum(output * fixed random weights) the gradients of all inputs and of all
// trainable parameters give the derivative along random directions, and that frozen parameters get
// none.
using Forward =
    std::function<absl::StatusOr<Value>(Context& context, const std::vector<Value>& inputs)>;
void CheckGradients(Bench& bench, const std::vector<Shape>& inputs,
                    const std::vector<Parameter*>& parameters, const Forward& forward);

// |values - expected| / |expected|, of Euclidean norms; infinite if their sizes differ.
double RelativeDistance(const std::vector<float>& values, const std::vector<double>& expected);
// log(softmax(x)).
std::vector<double> LogSoftmax(std::vector<double> x);

}  // namespace zeroth::testing
