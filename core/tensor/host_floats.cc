// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/host_floats.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

absl::Status NoFloats(const Tensor& tensor) {
  return InvalidArgument("a tensor of ", DTypeName(tensor.dtype()),
                         " read or set as floats, expected fp32, bf16 or fp16");
}

template <typename T>
absl::StatusOr<std::vector<float>> Widened(const Tensor& tensor) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> values, tensor.ToHost<T>());
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const T value : values) floats.push_back(ToFloat(value));
  return floats;
}

template <typename T, typename Round>
std::vector<T> Rounded(absl::Span<const float> values, const Round& round) {
  std::vector<T> rounded;
  rounded.reserve(values.size());
  for (const float value : values) rounded.push_back(round(value));
  return rounded;
}

// Waits for the copy, because the caller owns `values`.
absl::Status Copy(const void* values, const Tensor& tensor) {
  Stream& stream = tensor.device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(
      tensor.device().CopyFromHost(tensor.raw_data(), values, tensor.bytes(), stream));
  return stream.Synchronize();
}

}  // namespace

absl::StatusOr<std::vector<float>> ToHostFloats(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.ToHost<float>();
    case DType::kBFloat16:
      return Widened<BFloat16>(tensor);
    case DType::kFloat16:
      return Widened<Float16>(tensor);
    default:
      return NoFloats(tensor);
  }
}

absl::Status SetFromHostFloats(absl::Span<const float> values, const Tensor& tensor) {
  if (static_cast<int64_t>(values.size()) != tensor.numel()) {
    return InvalidArgument("a tensor of ", tensor.numel(), " elements set to ", values.size(),
                           " values");
  }
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return Copy(values.data(), tensor);
    case DType::kBFloat16:
      return Copy(Rounded<BFloat16>(values, ToBFloat16).data(), tensor);
    case DType::kFloat16:
      return Copy(Rounded<Float16>(values, ToFloat16).data(), tensor);
    default:
      return NoFloats(tensor);
  }
}

}  // namespace zeroth
