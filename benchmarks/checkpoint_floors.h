// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What moving as many bytes takes without a checkpoint around them.

#ifndef ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_
#define ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// Seconds of the program `dd` for `bytes`, rounded up to its blocks of 8 MiB, of zeros to a new
// file in `directory`, flushed to stable storage, and past the page cache if `direct`. The file is
// removed, which is not timed.
absl::StatusOr<double> TimeDd(const std::string& directory, int64_t bytes, bool direct);

// Memory that is there, too large for caches, and copied to in turns: a destination of any number
// of bytes without having as many.
class CopyTarget {
 public:
  CopyTarget();
  void Copy(absl::Span<const uint8_t> bytes);

 private:
  std::vector<uint8_t> window_;
  size_t place_ = 0;
};

// Fills `memory` with the file's bytes from the first on, by read(2). OutOfRange if it is shorter.
absl::Status ReadFileInto(const std::string& path, const std::vector<absl::Span<uint8_t>>& memory);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_
