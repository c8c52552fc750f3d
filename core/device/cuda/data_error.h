// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How a kernel reports bad data, such as a token outside the vocabulary: in a word of host memory
// that the device can write. The host reads it when it next waits for the stream.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace zeroth::cuda {

enum class DataErrorCode : unsigned {
  kNone = 0,
  kToken,          // of Embedding: outside [0, limit)
  kBackwardToken,  // of EmbeddingBackward
  kTarget,         // of LinearCrossEntropy: neither -100 nor in [0, limit)
};

// The first device thread that finds bad data claims the word and writes it. It writes the code
// last, so that a host that reads meanwhile sees a whole report or none.
struct DataErrorWord {
  unsigned claimed = 0;
  unsigned code = 0;
  int32_t value = 0;
  int64_t position = 0;  // index of the element, dimensions flattened
  int64_t width = 1;     // elements in a row of the tensor
  int64_t limit = 0;
};

// Returns OK, or the InvalidArgument that the word describes.
absl::Status ToStatus(const DataErrorWord& word);

}  // namespace zeroth::cuda
