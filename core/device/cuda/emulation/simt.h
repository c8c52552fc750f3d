// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs CUDA kernels on the host, so that their logic is tested where there is no GPU: blocks one
// after the other, the threads of a block in turns that change at barriers and warp collectives. It
// shows wrong indices, and barriers that not all threads reach. Under the sanitizers it shows
//
//   races (thread sanitizer): two threads of a block without a __syncthreads or __syncwarp between
//     their accesses, two blocks of a grid, two kernels whose streams no event orders. Emulated
//     threads are threads to it, ordered by what CUDA says orders them and by nothing else: the
//     launch, __syncthreads, __syncwarp, __threadfence around atomics, and the end of the grid.
//     Shuffles, votes and matrix products exchange values and order no memory. Each finding is one
//     pair of accesses that CUDA leaves unordered; what it misses: it remembers the last few
//     accesses to a word, and of two blocks only those that run on different sets of fibers;
//   accesses outside of what was allocated (address sanitizer): device memory, and each array of
//     shared memory.
//
// Memory that nobody has written reads as NaNs, shared memory anew for every block. Nothing here
// shows speed, nor instructions and limits of the hardware.

#ifndef ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_
#define ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_

#include <vector_types.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

#include "zeroth/core/device/cuda/emulation/watched.h"

namespace zeroth::cuda::emulation {

inline constexpr unsigned kWarpSize = 32;

// Runs `thread` for every thread of every block on the calling host thread, and returns when all
// have ended. Aborts, naming `kernel`, where hardware would hang or misbehave: a barrier or a warp
// collective that not all threads reach.
void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
             const std::function<void()>& thread);

// What the running CUDA thread sees. Abort outside of one.
uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockDim();
dim3 GridDim();
void* DynamicShared();
unsigned LaneIndex();

// The block's array of `bytes` of shared memory for the variable that `variable`, some address, is
// the name of. The block's first thread that asks makes it.
void* StaticShared(const void* variable, size_t bytes);
inline constexpr size_t kSharedAlignment = 128;

// __syncthreads, __syncwarp of a whole warp.
void BlockBarrier();
void WarpBarrier();

// __threadfence: the thread's later atomics release what it did before, and what it has seen by its
// earlier atomics is acquired. An atomic of the emulation says so before and after it acts. Nothing
// where the host calls a kernel's function.
void Fence();
void BeforeAtomic(const void* address);
void AfterAtomic(const void* address);

// For parts of the emulation that keep something for each CUDA thread. Empty at first; a thread of
// a later block may find what one of an earlier block left.
std::shared_ptr<void>& ThreadsOwn();

// Shows `bytes` of every lane to all lanes of the warp: returns an array of 32 slots, `stride`
// bytes apart, valid until the lane's next collective. All lanes of a warp must call it.
inline constexpr size_t kWarpSlotBytes = 64;
const std::byte* WarpExchange(const void* mine, size_t bytes);

// A copy that the thread sanitizer does not see: a slot is no memory of the kernel's.
ZEROTH_UNWATCHED inline void CopySlot(std::byte* to, const std::byte* from, size_t bytes) {
  if constexpr (kRacesAreWatched) {
    for (size_t i = 0; i < bytes; ++i) {
      to[i] = from[i];
      asm volatile("" ::: "memory");  // lest the loop become memcpy, which the sanitizer replaces
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

#endif  // ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_
