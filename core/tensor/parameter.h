// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A named, trainable tensor. Its storage belongs to whoever manages it (a plain allocation, or the
// flat buffers of a sharded unit); a Parameter only views it. That keeps naming, freezing and tying
// ordinary while storage stays flat.

#ifndef ZEROTH_CORE_TENSOR_PARAMETER_H_
#define ZEROTH_CORE_TENSOR_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/initializer.h"
#include "zeroth/core/tensor/parameter_part.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Neither copyable nor movable: units and layers hold its address. Used by one rank's thread only.
class Parameter {
 public:
  Parameter(std::string name, Shape shape, Initializer initializer = Initializer::Zeros(),
            DType dtype = DType::kFloat32)
      : name_(std::move(name)),
        global_shape_(std::move(shape)),
        shape_(global_shape_),
        initializer_(initializer),
        dtype_(dtype),
        decay_(shape_.rank() >= 2) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  // Of what is here: a part, if the parameter is divided.
  const Shape& shape() const { return shape_; }
  int64_t numel() const { return shape_.numel(); }

  // Makes this a part of the parameter that it was constructed as (tensor parallelism); by default
  // it is all of it. Initial values, checkpoints and exports are of the undivided parameter, of
  // which this is a range. Before the parameter joins a unit. InvalidArgument as ShapeOfPart,
  // FailedPrecondition if it is a part already.
  absl::Status Divide(ParameterPart part);
  const std::optional<ParameterPart>& part() const { return part_; }
  // Of the undivided parameter.
  const Shape& global_shape() const { return global_shape_; }
  int64_t global_numel() const { return global_shape_.numel(); }
  // Which of its elements the elements [begin, begin + numel) here are.
  std::vector<ElementRun> GlobalRuns(int64_t begin, int64_t numel) const;

  DType dtype() const { return dtype_; }
  const Initializer& initializer() const { return initializer_; }

  // A frozen parameter takes no gradient. Change it before the parameter joins a unit, or through
  // the unit.
  bool requires_grad() const { return requires_grad_; }
  void set_requires_grad(bool value) { requires_grad_ = value; }

  // Weight decay applies; by convention to parameters with two or more dimensions. Override per
  // parameter.
  bool decay() const { return decay_; }
  void set_decay(bool value) { decay_ = value; }

  // The full values; undefined while nobody has made them available. Do not keep a copy: it would
  // keep a gather buffer.
  const Tensor& data() const { return data_; }
  void set_data(Tensor data) { data_ = std::move(data); }

  // Where to write a gradient contribution, and whether to add to what is there or to overwrite it.
  struct GradientSlot {
    Tensor tensor;
    bool accumulate = false;
  };
  // The slot for the next contribution; the caller must write all of it. FailedPrecondition if
  // nobody provides gradient storage (frozen, or not managed); the provider's error if it fails.
  absl::StatusOr<GradientSlot> TakeGradient();
  // The gradient so far; undefined when there is no storage for it now.
  const Tensor& grad() const { return grad_; }
  bool has_gradient() const { return grad_written_; }

  // For the owner of the storage: the view that contributions go to (undefined to take it back);
  // forgets what was written.
  void set_grad(Tensor grad) {
    grad_ = std::move(grad);
    grad_written_ = false;
  }
  // Marks the current gradient as (not) written, keeping its storage.
  void set_has_gradient(bool value) { grad_written_ = value; }
  // For the owner: called by TakeGradient when there is no storage yet; must set_grad or fail.
  void set_gradient_provider(std::function<absl::Status()> provider) {
    provider_ = std::move(provider);
  }

 private:
  std::string name_;
  Shape global_shape_;
  Shape shape_;
  std::optional<ParameterPart> part_;
  Initializer initializer_;
  DType dtype_;
  bool decay_;
  bool requires_grad_ = true;
  Tensor data_;
  Tensor grad_;
  bool grad_written_ = false;
  std::function<absl::Status()> provider_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_TENSOR_PARAMETER_H_
