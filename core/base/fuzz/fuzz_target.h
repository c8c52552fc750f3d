// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fuzzing of file formats: one target per format, which two programs run. A test damages the
// target's seeds tens of thousands of times, always in the same way. With clang, libFuzzer does so
// without end, guided by coverage (docs/build.md). zeroth_fuzz_test in //bazel:fuzz.bzl makes both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#ifdef ZEROTH_FUZZ_TEST
#include "gtest/gtest.h"
#endif

namespace zeroth {

struct FuzzTarget {
  // Reads a file of these bytes, aborts if what is accepted breaks the reader's promises, and
  // returns whether it was accepted.
  bool (*run)(absl::Span<const uint8_t> file) = nullptr;
  // Files from our own writers, which are all accepted.
  std::vector<std::string> (*seeds)() = nullptr;
  // Repairs damaged bytes before they are read, if not null. Otherwise a checksum over the file
  // would refuse every damaged file before the rest is read.
  std::string (*repair)(absl::string_view damaged) = nullptr;
  // Limits on `run`'s memory, in bytes for each byte of the file, on top of kFuzzFreeBytes: the
  // largest single allocation, and the total held at a time.
  size_t largest_request = 8;
  size_t most_held = 32;
};

// Allowed in any case, for messages, paths and small containers.
inline constexpr size_t kFuzzFreeBytes = size_t{64} << 10;

// Ends the source of a format's target: `ZEROTH_FUZZ_TARGET(Format) { return {Run, Seeds}; }`, in
// namespace zeroth. In a test, where several targets share a binary, it becomes a test case. In a
// libFuzzer program it defines GetFuzzTarget().
#ifdef ZEROTH_FUZZ_TEST
#define ZEROTH_FUZZ_TARGET(Format)                              \
  static FuzzTarget Get##Format##FuzzTarget();                  \
  TEST(Format##FuzzTest, DamagedFilesAreRefusedAndCostLittle) { \
    TestFuzzTarget(Get##Format##FuzzTarget());                  \
  }                                                             \
  static FuzzTarget Get##Format##FuzzTarget()
#else
#define ZEROTH_FUZZ_TARGET(Format) FuzzTarget GetFuzzTarget()
#endif

// Each libFuzzer program defines this once, for its format.
FuzzTarget GetFuzzTarget();

// The deterministic test of a target, in //core/base/fuzz:fuzz_test.
void TestFuzzTarget(const FuzzTarget& target);

// Runs the target on `file`, after repairing it. Aborts with a message if it uses more memory than
// the target allows. `label` names the input in that message.
bool RunFuzzTarget(const FuzzTarget& target, absl::Span<const uint8_t> file,
                   absl::string_view label);

// A file in memory with the given bytes, for readers that take a path.
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

// The bytes of `text`, which must outlive them.
inline absl::Span<const uint8_t> BytesOfText(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace zeroth
