// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fuzzing a file format: one target per format, run by two programs. A test damages the target's
// seeds by the ten thousand, the same ones every time; with clang, libFuzzer does so without end,
// guided by coverage (docs/build.md). zeroth_fuzz_test in //bazel:fuzz.bzl makes both.

#ifndef ZEROTH_CORE_BASE_FUZZ_FUZZ_TARGET_H_
#define ZEROTH_CORE_BASE_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct FuzzTarget {
  // Reads a file of these bytes, aborts if what is accepted breaks the reader's promises, and
  // returns whether it was accepted.
  bool (*run)(absl::Span<const uint8_t> file) = nullptr;
  // Files made by our own writers; all of them are accepted.
  std::vector<std::string> (*seeds)() = nullptr;
  // What is read instead of damaged bytes, if given: a checksum that covers the file would have
  // everything refused before the rest is looked at.
  std::string (*repair)(absl::string_view damaged) = nullptr;
  // `run` may ask for so many bytes at once, and hold so many, for each byte of the file; on top of
  // kFuzzFreeBytes.
  size_t largest_request = 8;
  size_t most_held = 32;
};

// For messages, paths and the first growth of containers.
inline constexpr size_t kFuzzFreeBytes = size_t{64} << 10;

// Defined once in a program, by its format.
FuzzTarget GetFuzzTarget();

// Runs the target on `file`, repaired, and aborts with a message if it takes more memory than the
// target says. `label` says in that message which input it was.
bool RunFuzzTarget(const FuzzTarget& target, absl::Span<const uint8_t> file,
                   absl::string_view label);

// A file of given bytes that lives in memory, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(absl::Span<const uint8_t> bytes);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// The bytes of a text, which outlives them.
inline absl::Span<const uint8_t> BytesOfText(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_FUZZ_FUZZ_TARGET_H_
