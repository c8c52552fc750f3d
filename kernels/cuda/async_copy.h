// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies from global to shared memory, which proceed while the thread computes (PTX
// ISA, cp.async).
//
//   CopyAsync16(...) or CopyAsync4(...), any number; CommitCopies(): these are one group;
//   WaitForCopies<N>(): all groups of this thread but the newest N have arrived.
//
// After the wait, the copied data is visible to the thread itself; a barrier makes it visible to
// the block. Before that, neither source nor destination may be touched. Every thread must wait for
// all its groups before it ends.

#pragma once

#include <cstdint>

#include "zeroth/core/device/cuda/kernel_language.h"

#if defined(ZEROTH_CUDA_EMULATION)
#include "zeroth/kernels/cuda/emulation/async_copies.h"
#endif

namespace zeroth::cuda {

// Copies 16 bytes; both addresses are aligned to 16. Writes zeros if not `valid`, and then does not
// read `from`.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* from, bool valid) {
#if defined(ZEROTH_CUDA_EMULATION)
  emulation::ThisThreadsCopies().Begin(shared, valid ? from : nullptr, 16);
#else
  // Bypasses the L1 cache, because a block reads each byte once.
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
#endif
}

// The same for 4 bytes.
__device__ __forceinline__ void CopyAsync4(void* shared, const void* from, bool valid) {
#if defined(ZEROTH_CUDA_EMULATION)
  emulation::ThisThreadsCopies().Begin(shared, valid ? from : nullptr, 4);
#else
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 4 : 0)
               : "memory");
#endif
}

__device__ __forceinline__ void CommitCopies() {
#if defined(ZEROTH_CUDA_EMULATION)
  emulation::ThisThreadsCopies().Commit();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

template <int kNewest>
__device__ __forceinline__ void WaitForCopies() {
#if defined(ZEROTH_CUDA_EMULATION)
  emulation::ThisThreadsCopies().Wait(kNewest);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kNewest) : "memory");
#endif
}

}  // namespace zeroth::cuda
