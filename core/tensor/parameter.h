// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A named, trainable tensor. A Parameter only views its storage, which belongs to its manager: a
// plain allocation, or the flat buffers of a sharded unit. So naming, freezing and tying do not
// depend on how the storage is laid out.

#pragma once

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

// The meaning of a matrix's rows and columns, for optimizers that treat matrices as a whole (Muon).
struct MatrixStructure {
  bool outputs_are_columns = false;  // stored [in, out]; otherwise [out, in]
  // The widths, along the outputs, of matrices that are stored side by side in this one: query, key
  // and value. Empty: this is a single matrix.
  std::vector<int64_t> parts = {};
  int64_t head_dim = 0;  // outputs of each attention head; 0: the outputs are not heads
};

// Neither copyable nor movable, because units and layers hold its address. Used by one rank's
// thread only.
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
  // The shape of what this rank holds: of a part, if the parameter is divided.
  const Shape& shape() const { return shape_; }
  int64_t numel() const { return shape_.numel(); }

  // Makes this object a part of the parameter that it was constructed as (tensor parallelism). By
  // default it is the whole parameter. Initial values, checkpoints and exports refer to elements of
  // the undivided parameter. Call it before the parameter joins a unit. InvalidArgument as
  // ShapeOfPart, FailedPrecondition if it is a part already.
  absl::Status Divide(ParameterPart part);
  const std::optional<ParameterPart>& part() const { return part_; }
  // The shape of the undivided parameter.
  const Shape& global_shape() const { return global_shape_; }
  int64_t global_numel() const { return global_shape_.numel(); }
  // Returns which elements of the undivided parameter [begin, begin + numel) of this object are.
  std::vector<ElementRun> GlobalRuns(int64_t begin, int64_t numel) const;

  DType dtype() const { return dtype_; }
  const Initializer& initializer() const { return initializer_; }

  const MatrixStructure& matrix() const { return matrix_; }
  void set_matrix(MatrixStructure matrix) { matrix_ = std::move(matrix); }

  // A frozen parameter gets no gradient. Set it before the parameter joins a unit, or through the
  // unit.
  bool requires_grad() const { return requires_grad_; }
  void set_requires_grad(bool value) { requires_grad_ = value; }

  // True if it is stored and gathered in fp32, whatever the types of its unit's other parameters,
  // and never quantised. Its gradients are in the unit's types. Set it before the parameter joins a
  // unit.
  bool keeps_fp32() const { return keeps_fp32_; }
  void set_keeps_fp32(bool value) { keeps_fp32_ = value; }

  // True if weight decay applies: by default to parameters with two or more dimensions.
  bool decay() const { return decay_; }
  void set_decay(bool value) { decay_ = value; }

  // The full values; undefined while they are not gathered. Do not keep a copy, which would keep a
  // gather buffer alive.
  const Tensor& data() const { return data_; }
  void set_data(Tensor data) { data_ = std::move(data); }

  // The destination of a gradient contribution, and whether to add to it or to overwrite it.
  struct GradientSlot {
    Tensor tensor;
    bool accumulate = false;
  };
  // Returns the slot for the next contribution; the caller must write all of it. FailedPrecondition
  // if there is no gradient storage (the parameter is frozen, or not managed), or the provider's
  // error.
  absl::StatusOr<GradientSlot> TakeGradient();
  // The gradient so far; undefined while it has no storage.
  const Tensor& grad() const { return grad_; }
  bool has_gradient() const { return grad_written_; }

  // For the owner of the storage: sets the view for contributions (undefined: none), and marks it
  // as not written.
  void set_grad(Tensor grad) {
    grad_ = std::move(grad);
    grad_written_ = false;
  }
  // Marks the current gradient as (not) written, keeping its storage.
  void set_has_gradient(bool value) { grad_written_ = value; }
  // For the owner: sets the function that TakeGradient calls if there is no storage yet. It must
  // call set_grad or fail.
  void set_gradient_provider(std::function<absl::Status()> provider) {
    provider_ = std::move(provider);
  }
  // True while a provider is set, as for every parameter of a sharding.
  bool is_owned() const { return provider_ != nullptr; }

 private:
  std::string name_;
  Shape global_shape_;
  Shape shape_;
  std::optional<ParameterPart> part_;
  Initializer initializer_;
  DType dtype_;
  bool keeps_fp32_ = false;
  bool decay_;
  MatrixStructure matrix_;
  bool requires_grad_ = true;
  Tensor data_;
  Tensor grad_;
  bool grad_written_ = false;
  std::function<absl::Status()> provider_;
};

}  // namespace zeroth
