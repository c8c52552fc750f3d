// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/testing/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "gtest/gtest.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/philox.h"

namespace zeroth::testing {
namespace {

// Half the distance of the two points of a difference: large enough for float32 to see it, small
// enough for curvature not to.
constexpr float kStep = 1e-2f;

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<float> Host(const Tensor& tensor) {
  absl::StatusOr<std::vector<float>> values = tensor.ToHost<float>();
  ZEROTH_CHECK(values.ok());
  return *std::move(values);
}

struct Point {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> parameters;
};

std::vector<Value> MakeInputs(Bench& bench, const std::vector<Shape>& shapes, const Point& point) {
  std::vector<Value> values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    values.push_back(bench.context->MakeValue(bench.Upload(shapes[i], point.inputs[i])));
  }
  return values;
}

// sum(output * weights) at a point; draws the weights at the first call.
double LossAt(Bench& bench, const std::vector<Shape>& shapes,
              const std::vector<Parameter*>& parameters, const Point& point, const Forward& forward,
              std::vector<float>& weights) {
  bench.tape.set_recording(false);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i]->set_data(bench.Upload(parameters[i]->shape(), point.parameters[i]));
  }
  const absl::StatusOr<Value> out = forward(*bench.context, MakeInputs(bench, shapes, point));
  EXPECT_TRUE(out.ok()) << out.status();
  if (!out.ok()) return 0;
  if (weights.empty()) weights = bench.Draw(out->data.numel());
  return Dot(Host(out->data), weights);
}

Point Moved(const Point& from, const Point& direction, float distance) {
  Point to = from;
  const auto move = [distance](std::vector<std::vector<float>>& values,
                               const std::vector<std::vector<float>>& along) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < values[i].size(); ++j) values[i][j] += distance * along[i][j];
    }
  };
  move(to.inputs, direction.inputs);
  move(to.parameters, direction.parameters);
  return to;
}

}  // namespace

Bench::Bench(const std::string& device_type) {
  absl::StatusOr<std::shared_ptr<Device>> opened =
      DeviceRegistry::Create(device_type, DeviceOptions());
  ZEROTH_CHECK(opened.ok());
  device = *std::move(opened);
  device->BindThread();
  absl::StatusOr<std::unique_ptr<Kernels>> made =
      KernelRegistry::Create(*device, device->compute_stream());
  ZEROTH_CHECK(made.ok());
  kernels = *std::move(made);
  context = std::make_unique<Context>(*device, *kernels, tape);
}

Tensor Bench::Upload(const Shape& shape, const std::vector<float>& values, DType dtype) {
  absl::StatusOr<Tensor> tensor =
      Tensor::FromHost<float>(*device, shape, values, MemoryCategory::kActivations);
  ZEROTH_CHECK(tensor.ok());
  tensor = CastTo(*context, *tensor, dtype);
  ZEROTH_CHECK(tensor.ok());
  return *std::move(tensor);
}

std::vector<float> Bench::Draw(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(draws_++, "bench").FillNormal(0, scale, absl::MakeSpan(values));
  return values;
}

void Bench::Own(Parameter& parameter, float scale, DType dtype) {
  parameter.set_data(Upload(parameter.shape(), Draw(parameter.numel(), scale), dtype));
  parameter.set_gradient_provider([this, &parameter, dtype] {
    const std::vector<float> unwritten(static_cast<size_t>(parameter.numel()), NAN);
    parameter.set_grad(Upload(parameter.shape(), unwritten, dtype));
    return absl::OkStatus();
  });
}

void CheckGradients(Bench& bench, const std::vector<Shape>& shapes,
                    const std::vector<Parameter*>& parameters, const Forward& forward) {
  Point point;
  Point direction;
  for (const Shape& shape : shapes) {
    point.inputs.push_back(bench.Draw(shape.numel()));
    direction.inputs.push_back(bench.Draw(shape.numel()));
  }
  for (Parameter* parameter : parameters) {
    point.parameters.push_back(Host(parameter->data()));
    direction.parameters.push_back(bench.Draw(parameter->requires_grad() ? parameter->numel() : 0));
    direction.parameters.back().resize(
        static_cast<size_t>(parameter->numel()));  // frozen ones stay where they are
  }
  std::vector<float> weights;
  const double ahead =
      LossAt(bench, shapes, parameters, Moved(point, direction, kStep), forward, weights);
  const double behind =
      LossAt(bench, shapes, parameters, Moved(point, direction, -kStep), forward, weights);
  const double numeric = (ahead - behind) / (2.0 * kStep);

  LossAt(bench, shapes, parameters, point, forward, weights);  // puts the parameters back
  bench.tape.set_recording(true);
  const std::vector<Value> inputs = MakeInputs(bench, shapes, point);
  const absl::StatusOr<Value> out = forward(*bench.context, inputs);
  ASSERT_TRUE(out.ok()) << out.status();
  out->node->grad = bench.Upload(out->data.shape(), weights);
  const absl::Status status = bench.tape.Backward();
  ASSERT_TRUE(status.ok()) << status;
  double analytic = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(inputs[i].node->grad.defined()) << "input " << i << " has no gradient";
    analytic += Dot(Host(inputs[i].node->grad), direction.inputs[i]);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(parameters[i]->has_gradient(), parameters[i]->requires_grad())
        << parameters[i]->name();
    if (parameters[i]->requires_grad())
      analytic += Dot(Host(parameters[i]->grad()), direction.parameters[i]);
    parameters[i]->set_grad(Tensor());
  }
  EXPECT_NEAR(analytic, numeric, 5e-3 * std::abs(numeric) + 5e-3);
}

double RelativeDistance(const std::vector<float>& values, const std::vector<double>& expected) {
  if (values.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double error = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - expected[i];
    error += difference * difference;
    square += expected[i] * expected[i];
  }
  return std::sqrt(error / square);
}

std::vector<double> LogSoftmax(std::vector<double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double value : x) sum += std::exp(value - most);
  for (double& value : x) value -= most + std::log(sum);
  return x;
}

}  // namespace zeroth::testing
