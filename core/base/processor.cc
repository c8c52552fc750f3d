// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/processor.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#else
#include <thread>
#endif

namespace zeroth {

#ifdef __x86_64__

bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0; }

bool HasAvx512F() { return __builtin_cpu_supports("avx512f") != 0; }

bool IsIntelWithAvx512Fp16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_INTEL_ebx) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAvx512Fp16 = 1u << 23;
  return (edx & kAvx512Fp16) != 0;
}

void PauseProcessor() { _mm_pause(); }

#else

bool HasAvx2() { return false; }

bool HasAvx512F() { return false; }

bool IsIntelWithAvx512Fp16() { return false; }

// Portable, and lets a thread that has no core run, which the hints of other architectures do not.
void PauseProcessor() { std::this_thread::yield(); }

#endif

}  // namespace zeroth
