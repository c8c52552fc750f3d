// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/safetensors_format.h"

namespace zeroth {

// The element type behind ggml's number for it. Unimplemented for quantised types, with the type's
// name and what to do; InvalidArgument for a number that ggml does not have.
absl::StatusOr<SafetensorsDType> DTypeOfGgml(uint32_t number);

// ggml's number; InvalidArgument for a type that ggml lacks (unsigned integers, booleans, FP8).
absl::StatusOr<uint32_t> GgmlNumberOf(SafetensorsDType dtype);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_
