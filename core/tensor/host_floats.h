// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads and writes tensors of any floating-point type, and bytes, as floats on the host: for
// loading, exporting and inspecting.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Returns the elements of a tensor of fp32, bf16, fp16 or uint8, which floats hold exactly.
// Synchronous, as Tensor::ToHost. InvalidArgument for other types.
absl::StatusOr<std::vector<float>> ToHostFloats(const Tensor& tensor);

// Sets a tensor of fp32, bf16 or fp16 to `values`, rounded to nearest even, or one of uint8 to
// whole numbers from 0 to 255. Synchronous. InvalidArgument for other types, or another number of
// values.
absl::Status SetFromHostFloats(absl::Span<const float> values, const Tensor& tensor);
// Sets elements [begin, begin + values.size()) of `state`, which must belong to `device`, in the
// same way.
absl::Status SetFromHostFloats(Device& device, absl::Span<const float> values,
                               const StateTensor& state, int64_t begin);

}  // namespace zeroth
