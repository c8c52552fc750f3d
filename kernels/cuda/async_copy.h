// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies from global to shared memory that go on while the thread computes (PTX ISA, cp.async).
//
//   CopyAsync16(...) or CopyAsync4(...), any number; CommitCopies(): these are one group;
//   WaitForCopies<N>(): all groups of this thread but the newest N have arrived.
//
// What a thread has waited for is visible to itself; a barrier makes it visible to its block. Until
// then neither end may be touched. Every thread waits for all its groups before it ends.

#ifndef ZEROTH_KERNELS_CUDA_ASYNC_COPY_H_
#define ZEROTH_KERNELS_CUDA_ASYNC_COPY_H_

#include <cstdint>

#include "zeroth/core/device/cuda/kernel_language.h"

#if defined(ZEROTH_CUDA_EMULATION)
#include "zeroth/kernels/cuda/emulation/async_copies.h"
#endif

namespace zeroth::cuda {

// 16 bytes, both ends aligned to 16; zeros if not `valid`, and then `from` is not read.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* from, bool valid) {
#if defined(ZEROTH_CUDA_EMULATION)
  emulation::ThisThreadsCopies().Begin(shared, valid ? from : nullptr, 16);
#else
  // Past the first-level cache: each byte is read once by a block.
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
#endif
}

// The same of 4 bytes.
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

#endif  // ZEROTH_KERNELS_CUDA_ASYNC_COPY_H_
