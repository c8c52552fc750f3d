// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs CUDA kernels on the host, so that their logic is tested where there is no GPU: blocks one
// after the other, the threads of a block in turns that change at barriers and warp collectives. It
// shows wrong indices, missing barriers that matter for this order of turns, barriers that not all
// threads reach and, under the address sanitizer, accesses outside of what was allocated. It cannot
// show races inside a block, nor anything of speed.

#ifndef ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_
#define ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_

#include <vector_types.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

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

// __syncthreads.
void BlockBarrier();

// Shows `bytes` of every lane to all lanes of the warp: returns an array of 32 slots, `stride`
// bytes apart, valid until the lane's next collective. All lanes of a warp must call it.
inline constexpr size_t kWarpSlotBytes = 64;
const std::byte* WarpExchange(const void* mine, size_t bytes);

// The same, typed: lane i's value is at(i).
template <typename T>
class WarpValues {
 public:
  explicit WarpValues(const T& mine) : slots_(WarpExchange(&mine, sizeof(T))) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kWarpSlotBytes);
  }
  T at(unsigned lane) const {
    T value;
    std::memcpy(&value, slots_ + lane * kWarpSlotBytes, sizeof(T));
    return value;
  }

 private:
  const std::byte* slots_;
};

}  // namespace zeroth::cuda::emulation

#endif  // ZEROTH_CORE_DEVICE_CUDA_EMULATION_SIMT_H_
