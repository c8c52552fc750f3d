// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/emulation/simt.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/cuda/emulation/fiber.h"

namespace zeroth::cuda::emulation {
namespace {

// The progress of a thread of the block.
enum class Progress : uint8_t { kRunning, kAtBarrier, kAtCollective, kDone };

// Values of a warp's lanes. Two sets in turn: a lane that is one collective ahead writes into the
// other one, and cannot get two ahead.
struct WarpSlots {
  alignas(64) std::byte slots[2][kWarpSize * kWarpSlotBytes];
};

// The state of a thread of the block on which later steps depend.
struct ThreadState {
  Progress progress = Progress::kRunning;
  uint8_t slots = 0;  // which set its next exchange uses
  // Which of two places the thread's next barrier uses, for the block and for its warp. They
  // alternate, since a thread that is one barrier ahead must not release its later work to threads
  // that have yet to leave the previous one.
  uint8_t block_place = 0;
  uint8_t warp_place = 0;
  bool fenced = false;
  unsigned seen_count = 0;
  const void* seen[8] = {};  // words of the latest atomics since the fence, in a ring
};

// Shared memory of a block: allocations of exactly the size, so that the address sanitizer sees
// accesses beyond it, and new for each block, so that the thread sanitizer tells blocks apart.
// NaNs: shared memory that a block reads before it writes it must not look like a result.
class SharedArray {
 public:
  SharedArray() = default;
  explicit SharedArray(size_t bytes) {
    ZEROTH_CHECK(posix_memalign(&data_, kSharedAlignment, bytes) == 0);
    std::memset(data_, 0xFF, bytes);
  }
  SharedArray(SharedArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  SharedArray& operator=(SharedArray&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~SharedArray() { std::free(data_); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

uint3 Unravel(unsigned linear, dim3 size) {
  return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

// A fiber of the thread sanitizer costs a millisecond and a megabyte, and each makes all others
// slower, so a process limits its second sets. Counted by relaxed atomics, which order nothing.
constexpr unsigned kMostSecondFibers = 2048;
std::atomic<unsigned> second_fibers{0};

// Runs one block at a time, on the host thread that it belongs to. Only unwatched functions touch
// its members while emulated threads run.
class BlockRunner {
 public:
  ~BlockRunner();

  void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
               const std::function<void()>& thread);

  ZEROTH_UNWATCHED bool inside() const { return inside_; }
  ZEROTH_UNWATCHED uint3 thread_index() const { return thread_index_; }
  ZEROTH_UNWATCHED uint3 block_index() const { return block_index_; }
  ZEROTH_UNWATCHED dim3 block_dim() const { return block_dim_; }
  ZEROTH_UNWATCHED dim3 grid_dim() const { return grid_dim_; }
  // An empty array lies at the end of the memory, where the address sanitizer allows no access.
  ZEROTH_UNWATCHED void* dynamic_shared() {
    auto* const bytes = static_cast<std::byte*>(dynamic_shared_.data());
    return dynamic_shared_bytes_ > 0 ? bytes : bytes + kSharedAlignment;
  }
  ZEROTH_UNWATCHED unsigned lane() const { return current_ % kWarpSize; }
  ZEROTH_UNWATCHED void* StaticShared(const void* variable, size_t bytes);
  ZEROTH_UNWATCHED std::shared_ptr<void>& threads_own() { return (*owns_)[current_]; }

  ZEROTH_UNWATCHED void BlockBarrier();
  ZEROTH_UNWATCHED void WarpBarrier();
  ZEROTH_UNWATCHED const std::byte* Exchange(const void* mine, size_t bytes);
  ZEROTH_UNWATCHED void Fence();
  ZEROTH_UNWATCHED void BeforeAtomic(const void* address);
  ZEROTH_UNWATCHED void AfterAtomic(const void* address);

 private:
  // Two sets of fibers under the thread sanitizer. Blocks on different ones share nothing that
  // would order them; of two blocks on the same one, the later may seem to come after the earlier.
  struct FiberSet {
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<std::shared_ptr<void>> owns;  // by fiber, since only it may touch it
  };
  struct Static {
    const void* variable;
    SharedArray array;
  };
  // Meeting places of a grid.
  enum : size_t { kLaunch, kEnd, kGridPlaces };

  ZEROTH_UNWATCHED void Wait(Progress at) {
    const unsigned self = current_;
    threads_[self].progress = at;
    (*fibers_)[self]->Suspend();
  }
  // The set on which block number `block` runs.
  FiberSet& SetFor(uint64_t block);
  void Grow(FiberSet& set);
  void RunBlock(const std::function<void()>& thread);
  void StartThreads(const std::function<void()>& thread);
  // Runs a warp's threads until they wait for other warps or have ended; returns how many ended.
  unsigned RunWarp(unsigned first);
  // Resumes threads whose wait is over. Returns false if no thread can continue.
  bool Release();
  bool ReleaseWarp(unsigned first);
  [[noreturn]] void Stuck() const;

  bool inside_ = false;
  const char* kernel_ = "";
  dim3 grid_dim_;
  dim3 block_dim_;
  uint3 block_index_{0, 0, 0};
  unsigned thread_count_ = 0;
  unsigned current_ = 0;
  uint3 thread_index_{0, 0, 0};  // of current_
  size_t dynamic_shared_bytes_ = 0;
  FiberSet sets_[2];
  std::vector<std::unique_ptr<Fiber>>* fibers_ = nullptr;
  std::vector<std::shared_ptr<void>>* owns_ = nullptr;
  std::vector<ThreadState> threads_;
  std::vector<WarpSlots> warps_;
  SharedArray dynamic_shared_;
  std::vector<Static> statics_;
  std::unique_ptr<Edges> grid_edges_;
  std::unique_ptr<Edges> block_edges_;  // two of the block, then two of each warp
};

BlockRunner::~BlockRunner() {
  const Unwatched unwatched;
  second_fibers.fetch_sub(static_cast<unsigned>(sets_[1].fibers.size()), std::memory_order_relaxed);
  for (FiberSet& set : sets_) {
    set.owns.clear();
    set.fibers.clear();
  }
}

void BlockRunner::RunGrid(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                          const std::function<void()>& thread) {
  ZEROTH_CHECK(!inside_);
  const Unwatched unwatched;
  inside_ = true;
  kernel_ = kernel;
  grid_dim_ = grid;
  block_dim_ = block;
  thread_count_ = block.x * block.y * block.z;
  dynamic_shared_bytes_ = dynamic_shared_bytes;
  warps_.resize((thread_count_ + kWarpSize - 1) / kWarpSize);
  grid_edges_ = std::make_unique<Edges>(kGridPlaces);
  grid_edges_->Release(kLaunch);
  uint64_t number = 0;
  for (block_index_.z = 0; block_index_.z < grid.z; ++block_index_.z) {
    for (block_index_.y = 0; block_index_.y < grid.y; ++block_index_.y) {
      for (block_index_.x = 0; block_index_.x < grid.x; ++block_index_.x) {
        FiberSet& set = SetFor(number++);
        fibers_ = &set.fibers;
        owns_ = &set.owns;
        RunBlock(thread);
      }
    }
  }
  grid_edges_->Acquire(kEnd);
  inside_ = false;
}

BlockRunner::FiberSet& BlockRunner::SetFor(uint64_t block) {
  // The set is the parity of the ones in the block's number, so that for every distance some blocks
  // that far apart are on different sets. Alternating sets would never separate blocks an even
  // number apart.
  size_t which = kRacesAreWatched ? static_cast<size_t>(std::popcount(block)) % 2 : 0;
  const size_t have = sets_[1].fibers.size();
  if (which == 1 && have < thread_count_) {
    const unsigned more = thread_count_ - static_cast<unsigned>(have);
    if (second_fibers.fetch_add(more, std::memory_order_relaxed) + more > kMostSecondFibers) {
      second_fibers.fetch_sub(more, std::memory_order_relaxed);
      which = 0;
    }
  }
  Grow(sets_[which]);
  return sets_[which];
}

void BlockRunner::Grow(FiberSet& set) {
  while (set.fibers.size() < thread_count_) set.fibers.push_back(std::make_unique<Fiber>());
  if (set.owns.size() < thread_count_) set.owns.resize(thread_count_);
}

void BlockRunner::StartThreads(const std::function<void()>& thread) {
  threads_.assign(thread_count_, ThreadState());
  block_edges_ = std::make_unique<Edges>(2 + 2 * warps_.size());
  dynamic_shared_ =
      SharedArray(dynamic_shared_bytes_ > 0 ? dynamic_shared_bytes_ : kSharedAlignment);
  statics_.clear();
  for (unsigned i = 0; i < thread_count_; ++i) {
    Fiber& fiber = *(*fibers_)[i];
    if constexpr (kRacesAreWatched) {
      const uint3 at = Unravel(i, block_dim_);
      char name[80];
      std::snprintf(name, sizeof(name), "block (%u, %u, %u), thread (%u, %u, %u)", block_index_.x,
                    block_index_.y, block_index_.z, at.x, at.y, at.z);
      fiber.SetName(name);
    }
    fiber.Start([this, &thread] {
      grid_edges_->Acquire(kLaunch);
      thread();
      grid_edges_->Release(kEnd);
    });
  }
}

void BlockRunner::RunBlock(const std::function<void()>& thread) {
  StartThreads(thread);
  const unsigned warps = static_cast<unsigned>(warps_.size());
  unsigned alive = thread_count_;
  for (unsigned round = 0; alive > 0; ++round) {
    for (unsigned w = 0; w < warps; ++w) {
      alive -= RunWarp((round % 2 == 0 ? w : warps - 1 - w) * kWarpSize);
    }
    if (alive > 0 && !Release()) Stuck();
  }
}

unsigned BlockRunner::RunWarp(unsigned first) {
  unsigned ended = 0;
  const unsigned end = first + kWarpSize < thread_count_ ? first + kWarpSize : thread_count_;
  do {
    for (unsigned i = first; i < end; ++i) {
      if (threads_[i].progress != Progress::kRunning) continue;
      current_ = i;
      thread_index_ = Unravel(i, block_dim_);
      Fiber& fiber = *(*fibers_)[i];
      fiber.Resume();
      if (fiber.done()) {
        threads_[i].progress = Progress::kDone;
        ++ended;
      }
    }
  } while (ReleaseWarp(first));
  return ended;
}

bool BlockRunner::Release() {
  for (const ThreadState& thread : threads_) {
    if (thread.progress != Progress::kAtBarrier && thread.progress != Progress::kDone) return false;
  }
  for (ThreadState& thread : threads_) {
    if (thread.progress == Progress::kAtBarrier) thread.progress = Progress::kRunning;
  }
  return true;
}

bool BlockRunner::ReleaseWarp(unsigned first) {
  if (thread_count_ - first < kWarpSize) return false;
  for (unsigned i = first; i < first + kWarpSize; ++i) {
    if (threads_[i].progress != Progress::kAtCollective) return false;
  }
  for (unsigned i = first; i < first + kWarpSize; ++i) threads_[i].progress = Progress::kRunning;
  return true;
}

void BlockRunner::Stuck() const {
  unsigned counts[4] = {0, 0, 0, 0};
  for (const ThreadState& thread : threads_) ++counts[static_cast<size_t>(thread.progress)];
  std::fprintf(
      stderr,
      "kernel %s, block (%u, %u, %u): threads diverge: of %u, %u wait at a barrier, %u in a "
      "warp collective, %u have ended\n",
      kernel_, block_index_.x, block_index_.y, block_index_.z, thread_count_, counts[1], counts[2],
      counts[3]);
  std::abort();
}

void BlockRunner::BlockBarrier() {
  ThreadState& self = threads_[current_];
  const size_t place = self.block_place;
  self.block_place ^= 1;
  block_edges_->Release(place);
  Wait(Progress::kAtBarrier);
  block_edges_->Acquire(place);
}

void BlockRunner::WarpBarrier() {
  ThreadState& self = threads_[current_];
  const size_t place = 2 + 2 * size_t{current_ / kWarpSize} + self.warp_place;
  self.warp_place ^= 1;
  block_edges_->Release(place);
  Wait(Progress::kAtCollective);
  block_edges_->Acquire(place);
}

const std::byte* BlockRunner::Exchange(const void* mine, size_t bytes) {
  ZEROTH_CHECK(bytes <= kWarpSlotBytes);
  ThreadState& self = threads_[current_];
  std::byte* const slots = warps_[current_ / kWarpSize].slots[self.slots];
  self.slots ^= 1;
  CopySlot(slots + current_ % kWarpSize * kWarpSlotBytes, static_cast<const std::byte*>(mine),
           bytes);
  Wait(Progress::kAtCollective);
  return slots;
}

void* BlockRunner::StaticShared(const void* variable, size_t bytes) {
  const Unwatched unwatched;
  for (const Static& known : statics_) {
    if (known.variable == variable) return known.array.data();
  }
  statics_.push_back({variable, SharedArray(bytes)});
  return statics_.back().array.data();
}

void BlockRunner::Fence() {
#if defined(__SANITIZE_THREAD__)
  ThreadState& self = threads_[current_];
  for (unsigned i = 0; i < self.seen_count && i < std::size(self.seen); ++i) {
    __tsan_acquire(const_cast<void*>(self.seen[i]));
  }
  self.seen_count = 0;
  self.fenced = true;
#endif
}

void BlockRunner::BeforeAtomic([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  if (threads_[current_].fenced) __tsan_release(const_cast<void*>(address));
#endif
}

void BlockRunner::AfterAtomic([[maybe_unused]] const void* address) {
#if defined(__SANITIZE_THREAD__)
  ThreadState& self = threads_[current_];
  self.seen[self.seen_count++ % std::size(self.seen)] = address;
#endif
}

ZEROTH_UNWATCHED BlockRunner& Runner() {
  thread_local BlockRunner runner;
  return runner;
}

ZEROTH_UNWATCHED BlockRunner& Inside() {
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
void* StaticShared(const void* variable, size_t bytes) {
  return Inside().StaticShared(variable, bytes);
}
unsigned LaneIndex() { return Inside().lane(); }
std::shared_ptr<void>& ThreadsOwn() { return Inside().threads_own(); }
void BlockBarrier() { Inside().BlockBarrier(); }
void WarpBarrier() { Inside().WarpBarrier(); }
void Fence() {
  __sync_synchronize();
  if (Runner().inside()) Runner().Fence();
}
void BeforeAtomic(const void* address) {
  if (Runner().inside()) Runner().BeforeAtomic(address);
}
void AfterAtomic(const void* address) {
  if (Runner().inside()) Runner().AfterAtomic(address);
}
const std::byte* WarpExchange(const void* mine, size_t bytes) {
  return Inside().Exchange(mine, bytes);
}

}  // namespace zeroth::cuda::emulation
