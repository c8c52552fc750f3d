// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>

#include "zeroth/checkpoint/gguf/gguf_fuzz.h"

// libFuzzer's entry point.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  zeroth::FuzzGguf({data, size});
  return 0;
}
