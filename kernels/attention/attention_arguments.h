// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What every way to compute attention asks of its arguments.

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_ARGUMENTS_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_ARGUMENTS_H_

#include <cstdint>

namespace zeroth::cuda {

// To the 16 bytes that an asynchronous copy moves, and that cuDNN takes for granted.
template <typename... Pointers>
bool AreAligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_ARGUMENTS_H_
