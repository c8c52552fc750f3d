// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_FUZZ_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_FUZZ_H_

#include <cstdint>

#include "absl/types/span.h"

namespace zeroth {

// Reads `bytes` as a GGUF file, its vocabulary and config included, and aborts if what is accepted
// breaks the reader's promises. Returns whether it was accepted. What fuzzers call.
bool FuzzGguf(absl::Span<const uint8_t> bytes);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_FUZZ_H_
