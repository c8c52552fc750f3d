// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// Files that store some of their weights in blocks of few bits. Immutable and thread-safe.
class PackedBlocks {
 public:
  virtual ~PackedBlocks() = default;

  // The weights that are stored in blocks, by name, and their formats (of kGgufFormats).
  const std::map<std::string, PackedFormat, std::less<>>& blocks() const { return blocks_; }
  // Reads bytes [begin, begin + out.size()) of a weight in blocks(): the blocks of its first row,
  // then of its second, and so on, as GGUF stores them. NotFound for other weights, OutOfRange for
  // bytes beyond the weight's. Also the errors of RandomAccessFile.
  virtual absl::Status ReadBlocks(absl::string_view name, int64_t begin,
                                  absl::Span<uint8_t> out) const = 0;

 protected:
  std::map<std::string, PackedFormat, std::less<>> blocks_;
};

}  // namespace zeroth
