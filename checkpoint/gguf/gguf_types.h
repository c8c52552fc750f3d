// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/checkpoint/safetensors_format.h"

namespace zeroth {

inline constexpr absl::string_view kGgufMagic = "GGUF";
// Longest key that the format allows.
inline constexpr size_t kMaxGgufKey = 65535;
// Arrays of arrays are legal and nobody writes them; hostile nesting would eat the stack.
inline constexpr int kMaxGgufDepth = 4;

// Keys and names in messages: hostile ones may be long or hold control characters.
std::string ShownInGguf(absl::string_view text);

// The element type behind ggml's number for it. Unimplemented for quantised types, with the type's
// name and what to do; InvalidArgument for a number that ggml does not have.
absl::StatusOr<SafetensorsDType> DTypeOfGgml(uint32_t number);

// ggml's number; InvalidArgument for a type that ggml lacks (unsigned integers, booleans, FP8).
absl::StatusOr<uint32_t> GgmlNumberOf(SafetensorsDType dtype);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_TYPES_H_
