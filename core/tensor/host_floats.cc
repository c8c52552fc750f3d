// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/host_floats.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status NoFloats(DType dtype) {
  return InvalidArgument("a tensor of ", DTypeName(dtype),
                         " read or set as floats, expected fp32, bf16, fp16 or uint8");
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

}  // namespace

absl::StatusOr<std::vector<float>> ToHostFloats(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.ToHost<float>();
    case DType::kBFloat16:
      return Widened<BFloat16>(tensor);
    case DType::kFloat16:
      return Widened<Float16>(tensor);
    case DType::kUInt8: {
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, tensor.ToHost<uint8_t>());
      return std::vector<float>(bytes.begin(), bytes.end());
    }
    default:
      return NoFloats(tensor.dtype());
  }
}

absl::Status SetFromHostFloats(absl::Span<const float> values, const Tensor& tensor) {
  if (static_cast<int64_t>(values.size()) != tensor.numel()) {
    return InvalidArgument("a tensor of ", tensor.numel(), " elements set to ", values.size(),
                           " values");
  }
  return SetFromHostFloats(tensor.device(), values, tensor, 0);
}

absl::Status SetFromHostFloats(Device& device, absl::Span<const float> values,
                               const StateTensor& state, int64_t begin) {
  const auto set = [&](const void* converted) {
    return CopyStateFromHost(device, converted, state, begin, static_cast<int64_t>(values.size()));
  };
  switch (state.dtype()) {
    case DType::kFloat32:
      return set(values.data());
    case DType::kBFloat16:
      return set(Rounded<BFloat16>(values, ToBFloat16).data());
    case DType::kFloat16:
      return set(Rounded<Float16>(values, ToFloat16).data());
    case DType::kUInt8: {
      const auto byte = [](float value) { return static_cast<uint8_t>(value); };
      return set(Rounded<uint8_t>(values, byte).data());
    }
    default:
      return NoFloats(state.dtype());
  }
}

}  // namespace zeroth
