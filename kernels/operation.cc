// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/operation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

std::string NameOf(const Matrix& matrix) {
  return absl::StrCat("[", matrix.rows, ", ", matrix.cols, "]");
}

}  // namespace

bool Operation::Place(const char* field, const Tensor& tensor) {
  if (!ok()) return false;
  if (!tensor.defined()) return Fail(field, "is undefined");
  const Device& device = kernels_.device();
  if (&tensor.device() != &device) {
    return Fail(field,
                absl::StrCat("is on ", tensor.device().name(), ", expected ",
                             tensor.device().name() == device.name() ? "this rank's own " : "",
                             device.name()));
  }
  if (tensors_.empty() || tensors_.back() != &tensor) tensors_.push_back(&tensor);
  if (kernels_.watch() != nullptr) fields_.push_back({field, tensor});
  return true;
}

bool Operation::Kind(const char* field, const Tensor& tensor, DType dtype) {
  if (!Place(field, tensor)) return false;
  if (tensor.dtype() == dtype) return true;
  return WrongType(field, tensor.dtype(), DTypeName(dtype));
}

bool Operation::Kind(const char* field, const Tensor& tensor, SharedType& type) {
  if (!Place(field, tensor)) return false;
  const DType dtype = tensor.dtype();
  if (type.leader == nullptr) {
    if (!IsFloatingPoint(dtype)) return WrongType(field, dtype, "fp32, bf16 or fp16");
    if (!IsHalfPrecision(field, dtype)) return false;
    type = {field, dtype};
  }
  if (dtype == type.dtype) return true;
  return WrongType(field, dtype, absl::StrCat(DTypeName(type.dtype), " as ", type.leader));
}

bool Operation::Kept(const char* field, const Tensor& tensor, const Shape& shape) {
  if (!Place(field, tensor)) return false;
  if (tensor.dtype() != DType::kFloat32 && tensor.dtype() != DType::kBFloat16) {
    return WrongType(field, tensor.dtype(), "fp32 or bf16");
  }
  return HasShape(field, tensor, shape);
}

bool Operation::MinRank(const char* field, const Tensor& tensor, int rank) {
  if (tensor.shape().rank() >= rank) return true;
  return WrongShape(field, tensor, absl::StrCat("at least ", rank, " dimensions"));
}

bool Operation::Inside(const char* field, const Matrix& matrix, SharedType& type) {
  return Kind(field, matrix.tensor, type) && Fits(field, matrix);
}

bool Operation::Fits(const char* field, const Matrix& matrix) {
  const bool sane = matrix.rows >= 0 && matrix.cols >= 0 && matrix.offset >= 0 &&
                    (matrix.rows <= 1 || matrix.stride >= matrix.cols);
  const int64_t end = matrix.rows == 0 || matrix.cols == 0
                          ? 0  // an empty matrix may lie anywhere
                          : matrix.offset + (matrix.rows - 1) * matrix.stride + matrix.cols;
  if (sane && end <= matrix.tensor.numel()) {
    if (kernels_.watch() != nullptr) fields_.back().values = matrix;
    return true;
  }
  return Fail(field,
              absl::StrCat("is ", NameOf(matrix), " at offset ", matrix.offset, " with rows ",
                           matrix.stride, " apart, which does not fit its tensor ",
                           matrix.tensor.shape().ToString()));
}

bool Operation::Sized(const char* field, const Matrix& matrix, int64_t rows, int64_t cols,
                      SharedType& type) {
  return Inside(field, matrix, type) && HasSize(field, matrix, rows, cols);
}

bool Operation::SizedOrRepeated(const char* field, const Matrix& matrix, int64_t rows, int64_t cols,
                                SharedType& type) {
  if (matrix.stride != 0) return Sized(field, matrix, rows, cols, type);
  Matrix row = matrix;
  row.rows = std::min<int64_t>(matrix.rows, 1);
  // The call keeps the address of the caller's tensor.
  return Kind(field, matrix.tensor, type) && Fits(field, row) && HasSize(field, matrix, rows, cols);
}

bool Operation::HasSize(const char* field, const Matrix& matrix, int64_t rows, int64_t cols) {
  if (matrix.rows == rows && matrix.cols == cols) return true;
  return Fail(field,
              absl::StrCat("is ", NameOf(matrix), ", expected ", Shape({rows, cols}).ToString()));
}

bool Operation::Require(bool condition, const char* field, absl::string_view problem) {
  if (!ok()) return false;
  return condition || Fail(field, problem);
}

bool Operation::Part(int64_t begin, int64_t count, int64_t all) {
  return Require(begin >= 0 && count >= 0 && count <= all && begin <= all - count, "count",
                 absl::StrCat("is ", count, " from ", begin, " on, expected a part of ", all));
}

bool Operation::HasShape(const char* field, const Tensor& tensor, const Shape& shape) {
  return tensor.shape() == shape || WrongShape(field, tensor, shape.ToString());
}

bool Operation::HasRows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols) {
  const Matrix flat(tensor);
  if (flat.rows == rows && flat.cols == cols) return true;
  return WrongShape(
      field, tensor,
      absl::StrCat(Shape({rows, cols}).ToString(), " (leading dimensions flattened)"));
}

bool Operation::HasCount(const char* field, const Tensor& tensor, int64_t count) {
  return tensor.numel() == count || WrongShape(field, tensor, absl::StrCat(count, " elements"));
}

// A call may not mix bf16 and fp16, since no device has kernels for both at once.
bool Operation::IsHalfPrecision(const char* field, DType dtype) {
  if (dtype == DType::kFloat32) return true;
  if (half_.leader == nullptr) half_ = {field, dtype};
  if (half_.dtype == dtype) return true;
  return WrongType(field, dtype,
                   absl::StrCat("fp32 or ", DTypeName(half_.dtype), " beside ", half_.leader));
}

bool Operation::WrongShape(const char* field, const Tensor& tensor, absl::string_view expected) {
  return Fail(field, absl::StrCat("is ", tensor.shape().ToString(), ", expected ", expected));
}

bool Operation::WrongType(const char* field, DType dtype, absl::string_view expected) {
  return Fail(field, absl::StrCat("is ", DTypeName(dtype), ", expected ", expected));
}

bool Operation::Fail(const char* field, absl::string_view problem) {
  if (ok()) status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", field, " ", problem));
  return false;
}

absl::Status Operation::Missing() const {
  return Unimplemented(name_, ": devices of type '", kernels_.device().type(),
                       "' have no kernel for it");
}

}  // namespace zeroth
