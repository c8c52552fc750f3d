// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For authors of operations: what the function of one does with its arguments, on every device. It
// checks them, so that all devices refuse the same calls in the same words ("Gemm: c is [2, 3],
// expected [2, 4]"), makes the call, a struct of numbers and pointers, and runs it.

#ifndef ZEROTH_KERNELS_OPERATION_H_
#define ZEROTH_KERNELS_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/call_watch.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// The element type that fields of one call share: fp32, bf16 or fp16, whichever the first of them
// has.
struct SharedType {
  const char* leader = nullptr;  // that first field, once there is one
  DType dtype = DType::kFloat32;
};

// Null for a tensor that is not given.
inline void* RawDataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw_data() : nullptr;
}
template <typename T = float>
T* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

// One call of an operation. It checks the call's fields and remembers the first that is wrong;
// every tensor that it has seen is one that the call uses. Values of tokens and targets lie on the
// device and are left to the device's function.
class Operation {
 public:
  // `name` and the tensors that are checked must outlive the object.
  Operation(const char* name, Kernels& kernels) : name_(name), kernels_(kernels) {}

  // InvalidArgument naming the operation and the first wrong field, or OK.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // The call's error if a field was wrong; Unimplemented if the device has no function for it;
  // otherwise what that function returns, which enqueues.
  template <typename Call>
  absl::Status Run(const Call& call) {
    if (!ok()) return status_;
    const auto function = KernelTable<Call>::Find(kernels_);
    if (function == nullptr) return Missing();
    absl::Status status = function(kernels_, call, tensors_);
    if (kernels_.watch() == nullptr || !status.ok()) return status;
    return kernels_.watch()->AfterCall(name_, fields_);
  }

  // Each of these is false if the field is wrong, or another one was.

  // `tensor` is defined and on the kernels' device.
  bool Place(const char* field, const Tensor& tensor);
  // The same, and of this dtype; or of the shared type, which it decides if it is the first.
  bool Kind(const char* field, const Tensor& tensor, DType dtype);
  bool Kind(const char* field, const Tensor& tensor, SharedType& type);
  // The same of a tensor that the optimizer keeps: fp32 or bf16, whatever gradients are.
  bool Kept(const char* field, const Tensor& tensor, const Shape& shape);
  bool MinRank(const char* field, const Tensor& tensor, int rank);

  template <typename Type>
  bool Exactly(const char* field, const Tensor& tensor, const Shape& shape, Type&& type) {
    return Kind(field, tensor, type) && HasShape(field, tensor, shape);
  }
  // [rows, cols] once the leading dimensions are flattened.
  template <typename Type>
  bool Rows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols, Type&& type) {
    return Kind(field, tensor, type) && HasRows(field, tensor, rows, cols);
  }
  template <typename Type>
  bool Count(const char* field, const Tensor& tensor, int64_t count, Type&& type) {
    return Kind(field, tensor, type) && HasCount(field, tensor, count);
  }

  // `matrix` lies inside its tensor, and is [rows, cols].
  bool Inside(const char* field, const Matrix& matrix, SharedType& type);
  bool Sized(const char* field, const Matrix& matrix, int64_t rows, int64_t cols, SharedType& type);

  // From here on fields may have the other 16-bit type: those of another tensor, or range, of many
  // in one call.
  void NextFields() { half_ = {}; }

  // `problem` says what `field` is and what was expected.
  bool Require(bool condition, const char* field, absl::string_view problem);

 private:
  bool HasShape(const char* field, const Tensor& tensor, const Shape& shape);
  bool HasRows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols);
  bool HasCount(const char* field, const Tensor& tensor, int64_t count);
  bool IsOneHalf(const char* field, DType dtype);
  bool Fail(const char* field, absl::string_view problem);
  absl::Status Missing() const;

  const char* name_;
  Kernels& kernels_;
  SharedType half_;  // the first field of a 16-bit type
  absl::InlinedVector<const Tensor*, 8> tensors_;
  std::vector<CallField> fields_;  // for a watch, if there is one
  absl::Status status_;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_OPERATION_H_
