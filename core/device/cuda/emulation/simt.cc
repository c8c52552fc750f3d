// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/emulation/simt.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/cuda/emulation/fiber.h"

namespace zeroth::cuda::emulation {
namespace {

// Where a thread of the block stands.
enum class Progress : uint8_t { kRunning, kAtBarrier, kAtCollective, kDone };

// Values of a warp's lanes. Two sets in turn: a lane that is one collective ahead writes into the
// other one, and cannot get two ahead.
struct WarpSlots {
  alignas(64) std::byte slots[2][kWarpSize * kWarpSlotBytes];
};

uint3 Unravel(unsigned linear, dim3 size) {
  return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

// Runs one block at a time, on the host thread that it belongs to.
class BlockRunner {
 public:
  void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
               const std::function<void()>& thread);

  bool inside() const { return inside_; }
  uint3 thread_index() const { return thread_index_; }
  uint3 block_index() const { return block_index_; }
  dim3 block_dim() const { return block_dim_; }
  dim3 grid_dim() const { return grid_dim_; }
  void* dynamic_shared() { return shared_; }
  unsigned lane() const { return current_ % kWarpSize; }

  void Wait(Progress at) {
    const unsigned self = current_;
    progress_[self] = at;
    fibers_[self]->Suspend();
  }
  const std::byte* Exchange(const void* mine, size_t bytes);

 private:
  void RunBlock(const std::function<void()>& thread);
  // Lets go whoever has waited long enough; false if nobody can go on.
  bool Release();
  bool ReleaseWarps();
  [[noreturn]] void Stuck() const;

  bool inside_ = false;
  const char* kernel_ = "";
  dim3 grid_dim_;
  dim3 block_dim_;
  uint3 block_index_{0, 0, 0};
  unsigned threads_ = 0;
  unsigned current_ = 0;
  uint3 thread_index_{0, 0, 0};  // of current_
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Progress> progress_;
  std::vector<uint8_t> phase_;  // by thread: which set of slots its next collective uses
  std::vector<WarpSlots> warps_;
  std::vector<std::byte> shared_storage_;
  std::byte* shared_ = nullptr;
};

void BlockRunner::RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                          const std::function<void()>& thread) {
  ZEROTH_CHECK(!inside_);
  inside_ = true;
  kernel_ = kernel;
  grid_dim_ = grid;
  block_dim_ = block;
  threads_ = block.x * block.y * block.z;
  while (fibers_.size() < threads_) fibers_.push_back(std::make_unique<Fiber>());
  warps_.resize((threads_ + kWarpSize - 1) / kWarpSize);
  constexpr size_t kAlignment = 128;
  shared_storage_.assign(dynamic_shared_bytes + kAlignment, std::byte{0});
  const auto address = reinterpret_cast<uintptr_t>(shared_storage_.data());
  shared_ = shared_storage_.data() + (kAlignment - address % kAlignment) % kAlignment;
  for (block_index_.z = 0; block_index_.z < grid.z; ++block_index_.z) {
    for (block_index_.y = 0; block_index_.y < grid.y; ++block_index_.y) {
      for (block_index_.x = 0; block_index_.x < grid.x; ++block_index_.x) {
        // NaNs: what a block reads of shared memory before it wrote it must not look like a result.
        std::memset(shared_, 0xFF, dynamic_shared_bytes);
        RunBlock(thread);
      }
    }
  }
  inside_ = false;
}

void BlockRunner::RunBlock(const std::function<void()>& thread) {
  progress_.assign(threads_, Progress::kRunning);
  phase_.assign(threads_, 0);
  for (unsigned i = 0; i < threads_; ++i) fibers_[i]->Start(thread);
  unsigned alive = threads_;
  for (unsigned round = 0; alive > 0; ++round) {
    const unsigned warps = (threads_ + kWarpSize - 1) / kWarpSize;
    for (unsigned w = 0; w < warps; ++w) {
      const unsigned first = (round % 2 == 0 ? w : warps - 1 - w) * kWarpSize;
      const unsigned end = first + kWarpSize < threads_ ? first + kWarpSize : threads_;
      for (;;) {
        for (unsigned i = first; i < end; ++i) {
          if (progress_[i] != Progress::kRunning) continue;
          current_ = i;
          thread_index_ = Unravel(i, block_dim_);
          fibers_[i]->Resume();
          if (fibers_[i]->done()) {
            progress_[i] = Progress::kDone;
            --alive;
          }
        }
        bool whole = end - first == kWarpSize;
        for (unsigned i = first; i < end && whole; ++i) {
          whole = progress_[i] == Progress::kAtCollective;
        }
        if (!whole) break;
        for (unsigned i = first; i < end; ++i) progress_[i] = Progress::kRunning;
      }
    }
    if (alive > 0 && !Release()) Stuck();
  }
}

bool BlockRunner::Release() {
  bool all_at_barrier = true;
  for (unsigned i = 0; i < threads_; ++i) {
    all_at_barrier &= progress_[i] == Progress::kAtBarrier || progress_[i] == Progress::kDone;
  }
  if (!all_at_barrier) return ReleaseWarps();
  for (Progress& progress : progress_) {
    if (progress == Progress::kAtBarrier) progress = Progress::kRunning;
  }
  return true;
}

bool BlockRunner::ReleaseWarps() {
  bool released = false;
  for (unsigned first = 0; first < threads_; first += kWarpSize) {
    bool whole = threads_ - first >= kWarpSize;
    for (unsigned i = first; i < first + kWarpSize && whole; ++i) {
      whole = progress_[i] == Progress::kAtCollective;
    }
    if (!whole) continue;
    for (unsigned i = first; i < first + kWarpSize; ++i) progress_[i] = Progress::kRunning;
    released = true;
  }
  return released;
}

void BlockRunner::Stuck() const {
  unsigned counts[4] = {0, 0, 0, 0};
  for (const Progress progress : progress_) ++counts[static_cast<size_t>(progress)];
  std::fprintf(
      stderr,
      "kernel %s, block (%u, %u, %u): threads diverge: of %u, %u wait at a barrier, %u in a "
      "warp collective, %u have ended\n",
      kernel_, block_index_.x, block_index_.y, block_index_.z, threads_, counts[1], counts[2],
      counts[3]);
  std::abort();
}

const std::byte* BlockRunner::Exchange(const void* mine, size_t bytes) {
  ZEROTH_CHECK(bytes <= kWarpSlotBytes);
  const unsigned self = current_;
  std::byte* const slots = warps_[self / kWarpSize].slots[phase_[self]];
  phase_[self] ^= 1;
  std::memcpy(slots + self % kWarpSize * kWarpSlotBytes, mine, bytes);
  Wait(Progress::kAtCollective);
  return slots;
}

BlockRunner& Runner() {
  thread_local BlockRunner runner;
  return runner;
}

BlockRunner& Inside() {
  BlockRunner& runner = Runner();
  ZEROTH_CHECK(runner.inside());
  return runner;
}

}  // namespace

void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
             const std::function<void()>& thread) {
  Runner().RunGrid(kernel, grid, block, dynamic_shared_bytes, thread);
}

uint3 ThreadIndex() { return Inside().thread_index(); }
uint3 BlockIndex() { return Inside().block_index(); }
dim3 BlockDim() { return Inside().block_dim(); }
dim3 GridDim() { return Inside().grid_dim(); }
void* DynamicShared() { return Inside().dynamic_shared(); }
unsigned LaneIndex() { return Inside().lane(); }
void BlockBarrier() { Inside().Wait(Progress::kAtBarrier); }
const std::byte* WarpExchange(const void* mine, size_t bytes) {
  return Inside().Exchange(mine, bytes);
}

}  // namespace zeroth::cuda::emulation
