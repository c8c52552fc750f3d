// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For authors of operations: the helper with which an operation's function checks its arguments and
// runs the device's implementation. Since the check is shared, all devices refuse the same calls
// with the same message ("Gemm: c is [2, 3], expected [2, 4]").

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// The element type that several fields of a call share: fp32, bf16 or fp16. The first field that is
// checked sets it.
struct SharedType {
  const char* leader = nullptr;  // the field that has set it, or null
  DType dtype = DType::kFloat32;
};

// Return the tensor's data, or null if it is undefined.
inline void* RawDataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw_data() : nullptr;
}
template <typename T = float>
T* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

// One call of an operation. It checks the call's fields, remembers the first wrong one, and
// collects the tensors that the call uses. It cannot check the values of tokens and targets, which
// lie on the device; the device's function does.
class Operation {
 public:
  // `name` and the tensors that are checked must outlive the object.
  Operation(const char* name, Kernels& kernels) : name_(name), kernels_(kernels) {}

  // Returns InvalidArgument that names the operation and the first wrong field, or OK.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Calls the device's function, which enqueues the operation, and returns its status. Returns the
  // error of the check if a field was wrong, and Unimplemented if the device has no function.
  template <typename Call>
  absl::Status Run(const Call& call) {
    if (!ok()) return status_;
    const auto function = KernelTable<Call>::Find(kernels_);
    if (function == nullptr) return Missing();
    CallWatch* const watch = kernels_.watch();
    if (watch != nullptr) watch->BeforeCall(name_);
    absl::Status status = function(kernels_, call, tensors_);
    if (watch == nullptr || !status.ok()) return status;
    return watch->AfterCall(name_, fields_);
  }

  // Returns Unimplemented if the device has no function for calls of this type.
  template <typename Call>
  absl::Status Supports() const {
    return KernelTable<Call>::Find(kernels_) == nullptr ? Missing() : absl::OkStatus();
  }

  // Each check below returns false if its field is wrong, or if an earlier check failed.

  // Checks that `tensor` is defined and on the kernels' device.
  bool Place(const char* field, const Tensor& tensor);
  // Also checks the dtype. With a SharedType, the first field that is checked sets the dtype of the
  // others.
  bool Kind(const char* field, const Tensor& tensor, DType dtype);
  bool Kind(const char* field, const Tensor& tensor, SharedType& type);
  // Checks a tensor that the optimizer keeps: it is fp32 or bf16, independently of the gradients'
  // dtype.
  bool Kept(const char* field, const Tensor& tensor, const Shape& shape);
  bool MinRank(const char* field, const Tensor& tensor, int rank);

  template <typename Type>
  bool Exactly(const char* field, const Tensor& tensor, const Shape& shape, Type&& type) {
    return Kind(field, tensor, type) && HasShape(field, tensor, shape);
  }
  // Checks that the shape is [rows, cols] after the leading dimensions are flattened.
  template <typename Type>
  bool Rows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols, Type&& type) {
    return Kind(field, tensor, type) && HasRows(field, tensor, rows, cols);
  }
  template <typename Type>
  bool Count(const char* field, const Tensor& tensor, int64_t count, Type&& type) {
    return Kind(field, tensor, type) && HasCount(field, tensor, count);
  }

  // Inside checks that `matrix` lies inside its tensor; Sized also checks that it is [rows, cols].
  bool Inside(const char* field, const Matrix& matrix, SharedType& type);
  bool Sized(const char* field, const Matrix& matrix, int64_t rows, int64_t cols, SharedType& type);
  // Like Sized, for an input that may have a stride of 0: then it is one row, repeated.
  bool SizedOrRepeated(const char* field, const Matrix& matrix, int64_t rows, int64_t cols,
                       SharedType& type);

  // The parts of Inside and Sized: the matrix fits its tensor, and it is [rows, cols].
  bool Fits(const char* field, const Matrix& matrix);
  bool HasSize(const char* field, const Matrix& matrix, int64_t rows, int64_t cols);

  // Fails because the tensor's shape is not the expected one.
  bool WrongShape(const char* field, const Tensor& tensor, absl::string_view expected);

  // Lets the fields that follow have the other 16-bit type, for calls whose tensors or ranges may
  // differ in type.
  void NextFields() { half_ = {}; }

  // Fails unless `condition` holds. `problem` says what `field` is and what was expected.
  bool Require(bool condition, const char* field, absl::string_view problem);
  // Fails unless [begin, begin + count) is a part of [0, all).
  bool Part(int64_t begin, int64_t count, int64_t all);

 private:
  bool HasShape(const char* field, const Tensor& tensor, const Shape& shape);
  bool HasRows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols);
  bool HasCount(const char* field, const Tensor& tensor, int64_t count);
  bool IsHalfPrecision(const char* field, DType dtype);
  bool WrongType(const char* field, DType dtype, absl::string_view expected);
  bool Fail(const char* field, absl::string_view problem);
  absl::Status Missing() const;

  const char* name_;
  Kernels& kernels_;
  SharedType half_;  // set by the first field of a 16-bit type
  absl::InlinedVector<const Tensor*, 8> tensors_;
  std::vector<CallField> fields_;  // filled only if there is a CallWatch
  absl::Status status_;
};

}  // namespace zeroth
