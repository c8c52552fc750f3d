// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The floors of checkpoints: the time to move as many bytes by the simplest means.

#ifndef ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_
#define ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// Returns the seconds that the program `dd` takes to write `bytes` of zeros, rounded up to blocks
// of 8 MiB, to a new file in `directory`, flushed to stable storage. It bypasses the page cache if
// `direct`. The file is then removed, which is not timed.
absl::StatusOr<double> TimeDd(const std::string& directory, int64_t bytes, bool direct);

// A destination for copies of any size: a window of resident memory, too large for caches, that is
// overwritten again and again.
class CopyTarget {
 public:
  CopyTarget();
  void Copy(absl::Span<const uint8_t> bytes);

 private:
  std::vector<uint8_t> window_;
  size_t place_ = 0;
};

// Fills `memory` with the file's first bytes, by read(2). OutOfRange if the file is shorter.
absl::Status ReadFileInto(const std::string& path, const std::vector<absl::Span<uint8_t>>& memory);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_CHECKPOINT_FLOORS_H_
