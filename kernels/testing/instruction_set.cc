// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Restricts a test program to fewer instruction sets than its processor has, as on another user's
// machine:
//
//   bazel test --test_env=ZEROTH_TEST_ISA=avx2 //tests/parity/...
//   bazel test --test_env=ZEROTH_TEST_ISA=portable //tests/parity/...
//
// "avx2" allows at most AVX2; "portable" is Highway's portable target and oneDNN's lowest, SSE4.1.
//
// Linking the library is enough. It must choose before the first kernel runs, since Highway and
// oneDNN both look at the processor once.

#include <cstdlib>
#include <iostream>

#include "absl/strings/string_view.h"
#include "hwy/highway.h"

namespace zeroth::testing {
namespace {

// Highway numbers an architecture's targets from the best to the least.
constexpr int64_t kBetterThanAvx2 = HWY_AVX2 - 1;

bool LimitInstructions() {
  const char* const value = std::getenv("ZEROTH_TEST_ISA");
  if (value == nullptr) return false;
  const absl::string_view limit = value;
  if (limit == "avx2") {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~kBetterThanAvx2);
  } else if (limit == "portable") {
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    hwy::SetSupportedTargetsForTest(HWY_STATIC_TARGET);
  } else {
    std::cerr << "ZEROTH_TEST_ISA=" << limit << ": expected avx2 or portable" << std::endl;
    std::_Exit(1);
  }
  std::cout << "Instructions: " << limit << std::endl;
  return true;
}

[[maybe_unused]] const bool limited = LimitInstructions();

}  // namespace
}  // namespace zeroth::testing
