// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

namespace zeroth {

// Everything that depends on the processor's architecture, except for the kernels, which Highway
// and oneDNN make portable. Each Has...() is false on architectures without such instructions.

inline constexpr bool kIsX86 =
#ifdef __x86_64__
    true;
#else
    false;
#endif

bool HasAvx2();
bool HasAvx512F();

// True on Intel's cores since Sapphire Rapids, whether or not the hypervisor hides AMX.
bool IsIntelWithAvx512Fp16();

// For loops that wait for another thread's write: lets the core's other thread run meanwhile.
void PauseProcessor();

}  // namespace zeroth
