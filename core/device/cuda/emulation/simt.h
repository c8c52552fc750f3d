// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs CUDA kernels on the host, to test their logic without a GPU. Blocks run one after the other.
// The threads of a block alternate at barriers and warp collectives. It finds wrong indices, and
// barriers that not all threads reach. Under the sanitizers it finds
//
//   races (thread sanitizer): two threads of a block without a __syncthreads or __syncwarp between
//     their accesses, two blocks of a grid, two kernels whose streams no event orders. The
//     sanitizer treats emulated threads as threads. Only what CUDA defines orders them: the launch,
//     __syncthreads, __syncwarp, __threadfence around atomics, and the end of the grid. Shuffles,
//     votes and MMAs exchange values but order no memory. Each finding is a pair of
//     accesses that CUDA leaves unordered. It may miss some: it remembers the last few accesses to
//     a word, and of two blocks only those that run on different sets of fibers;
//   accesses outside of allocations (address sanitizer): of device memory, and of each array of
//     shared memory.
//
// Memory that was never written reads as NaNs; shared memory does so again in every block. The
// emulation says nothing about speed, or about instructions and limits of the hardware.

#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

#include "zeroth/core/device/cuda/emulation/watched.h"

namespace zeroth::cuda::emulation {

inline constexpr unsigned kWarpSize = 32;

// Runs `thread` for every thread of every block on the calling host thread. Returns when all have
// ended. Aborts, naming `kernel`, if not all threads reach a barrier or a warp collective, where
// hardware would hang or misbehave.
void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
             const std::function<void()>& thread);

// Return the indices of the running CUDA thread. Abort outside of one.
uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockDim();
dim3 GridDim();
void* DynamicShared();
unsigned LaneIndex();

// Returns the block's array of `bytes` of shared memory. `variable` is an address that identifies
// the array. The first call in a block creates it.
void* StaticShared(const void* variable, size_t bytes);
inline constexpr size_t kSharedAlignment = 128;

// __syncthreads, __syncwarp of a whole warp.
void BlockBarrier();
void WarpBarrier();

// __threadfence: the thread's later atomics release its earlier writes, and acquire what it has
// seen by earlier atomics. An emulated atomic calls the functions below before and after it acts.
// Does nothing if the host calls a kernel's function.
void Fence();
void BeforeAtomic(const void* address);
void AfterAtomic(const void* address);

// Returns the CUDA thread's slot for state of other parts of the emulation. Empty at first. A
// thread of a later block may find the state of an earlier block's thread.
std::shared_ptr<void>& ThreadsOwn();

// Shows `bytes` of every lane to all lanes of the warp: returns an array of 32 slots, `stride`
// bytes apart, valid until the lane's next collective. All lanes of a warp must call it.
inline constexpr size_t kWarpSlotBytes = 64;
const std::byte* WarpExchange(const void* mine, size_t bytes);

// A copy that the thread sanitizer does not see, because a slot is not memory of the kernel.
ZEROTH_UNWATCHED inline void CopySlot(std::byte* to, const std::byte* from, size_t bytes) {
  if constexpr (kRacesAreWatched) {
    for (size_t i = 0; i < bytes; ++i) {
      to[i] = from[i];
      // Keeps the loop from becoming memcpy, which the sanitizer replaces.
      asm volatile("" ::: "memory");
    }
  } else {
    std::memcpy(to, from, bytes);
  }
}

// The same, typed: lane i's value is at(i).
template <typename T>
class WarpValues {
 public:
  explicit WarpValues(const T& mine) : slots_(WarpExchange(&mine, sizeof(T))) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kWarpSlotBytes);
  }
  T at(unsigned lane) const {
    T value;
    CopySlot(reinterpret_cast<std::byte*>(&value), slots_ + lane * kWarpSlotBytes, sizeof(T));
    return value;
  }

 private:
  const std::byte* slots_;
};

}  // namespace zeroth::cuda::emulation
