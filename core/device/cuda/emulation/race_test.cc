// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels with a race that the thread sanitizer must name, each beside its correct form, which must
// pass. Built without the sanitizer, the correct ones run and the others are skipped.

#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/test_stream.h"
#include "zeroth/core/device/cuda/emulation/watched.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"

// Set regardless of the environment: the tests wait for a process that ends at the first race.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace zeroth::cuda {
namespace {

using emulation::RunKernel;
using emulation::Stream;

class RaceDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulation::kRacesAreWatched) GTEST_SKIP() << "races show under --config=tsan only";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

// The sanitizer's default exit code, and a part of its message.
#define EXPECT_RACE(statement) \
  EXPECT_EXIT(statement, testing::ExitedWithCode(66), "WARNING: ThreadSanitizer: data race")

template <bool kCorrect>
__global__ void Rotate(const int* in, int* out) {
  ZEROTH_SHARED(int, values, [64]);
  values[threadIdx.x] = in[threadIdx.x];
  if (kCorrect) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 33) % 64];
}

TEST(RaceTest, SharedMemoryBehindABarrier) {
  std::vector<int> in(64, 7);
  std::vector<int> out(64);
  RunKernel(Rotate<true>, {dim3(1), dim3(64)}, in.data(), out.data());
  EXPECT_EQ(out, in);
}
TEST_F(RaceDeathTest, SharedMemoryWithoutABarrier) {
  std::vector<int> in(64, 7);
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(Rotate<false>, {dim3(1), dim3(64)}, in.data(), out.data()));
}

template <bool kCorrect>
__global__ void RotateDynamic(const int* in, int* out) {
  ZEROTH_DYNAMIC_SHARED(int, values);
  values[threadIdx.x] = in[threadIdx.x];
  if (kCorrect) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 33) % 64];
}

TEST(RaceTest, DynamicSharedMemoryBehindABarrier) {
  std::vector<int> in(64, 7);
  std::vector<int> out(64);
  RunKernel(RotateDynamic<true>, {dim3(1), dim3(64), 256}, in.data(), out.data());
  EXPECT_EQ(out, in);
}
TEST_F(RaceDeathTest, DynamicSharedMemoryWithoutABarrier) {
  std::vector<int> in(64, 7);
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(RotateDynamic<false>, {dim3(1), dim3(64), 256}, in.data(), out.data()));
}

enum class Order { kNone, kShuffle, kWarp };

// Lanes pass values through shared memory; a shuffle in between synchronizes them but orders no
// memory ("do not imply a memory barrier", CUDA C++ Programming Guide, warp shuffle functions).
template <Order kOrder>
__global__ void ReverseWarps(int* out) {
  ZEROTH_SHARED(int, values, [64]);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kOrder == Order::kShuffle) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
  if (kOrder == Order::kWarp) __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 31];
}

TEST(RaceTest, LanesBehindAWarpBarrier) {
  std::vector<int> out(64);
  RunKernel(ReverseWarps<Order::kWarp>, {dim3(1), dim3(64)}, out.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i ^ 31);
}
TEST_F(RaceDeathTest, LanesWithoutAWarpBarrier) {
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(ReverseWarps<Order::kNone>, {dim3(1), dim3(64)}, out.data()));
}
TEST_F(RaceDeathTest, LanesThatOnlyMeetInAShuffle) {
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(ReverseWarps<Order::kShuffle>, {dim3(1), dim3(64)}, out.data()));
}

// A barrier of each warp where one of the block is needed.
template <bool kCorrect>
__global__ void AcrossWarps(int* out) {
  ZEROTH_SHARED(int, values, [64]);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kCorrect) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = values[threadIdx.x ^ 32];
}

TEST(RaceTest, WarpsBehindABarrierOfTheBlock) {
  std::vector<int> out(64);
  RunKernel(AcrossWarps<true>, {dim3(1), dim3(64)}, out.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i ^ 32);
}
TEST_F(RaceDeathTest, WarpsBehindSeparateBarriers) {
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(AcrossWarps<false>, {dim3(1), dim3(64)}, out.data()));
}

// The barrier at the end of an iteration keeps the next one's writes from this one's reads.
template <bool kCorrect>
__global__ void Repeat(int* out) {
  ZEROTH_SHARED(int, values, [64]);
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    values[threadIdx.x] = i;
    __syncthreads();
    sum += values[(threadIdx.x + 33) % 64];
    if (kCorrect) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

TEST(RaceTest, IterationsBehindABarrier) {
  std::vector<int> out(64);
  RunKernel(Repeat<true>, {dim3(1), dim3(64)}, out.data());
  EXPECT_EQ(out, std::vector<int>(64, 3));
}
TEST_F(RaceDeathTest, WriteAfterReadOfTheIterationBefore) {
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(Repeat<false>, {dim3(1), dim3(64)}, out.data()));
}

// Each block writes one word, and with an overlap its neighbour's `distance` blocks on, barriers or
// not.
__global__ void WriteTwice(unsigned distance, bool overlap, int* out) {
  __syncthreads();
  if (threadIdx.x == 0) {
    out[blockIdx.x] = 1;
    if (overlap) out[(blockIdx.x + distance) % gridDim.x] = 1;
  }
  __syncthreads();
}

TEST(RaceTest, BlocksWithSeparateWords) {
  std::vector<int> out(16);
  RunKernel(WriteTwice, {dim3(16), dim3(64)}, 1u, false, out.data());
  EXPECT_EQ(out, std::vector<int>(16, 1));
}
TEST_F(RaceDeathTest, BlocksThatShareAWord) {
  for (unsigned distance = 1; distance < 5; ++distance) {
    std::vector<int> out(16);
    EXPECT_RACE(RunKernel(WriteTwice, {dim3(16), dim3(64)}, distance, true, out.data()));
  }
}

__global__ void EveryBlockTheSameWord(int* out) {
  if (threadIdx.x == 0) *out = 1;
}
TEST_F(RaceDeathTest, TwoBlocksAndOneWord) {
  int out = 0;
  EXPECT_RACE(RunKernel(EveryBlockTheSameWord, {dim3(2), dim3(32)}, &out));
}
// One kernel comes after the other, and the host after both.
TEST(RaceTest, KernelsOfAStreamComeOneAfterTheOther) {
  int out = 0;
  Stream stream;
  for (int i = 0; i < 3; ++i) stream.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
  stream.Wait();
  EXPECT_EQ(out, 1);
  out = 5;
  stream.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
  stream.Wait();
}
TEST_F(RaceDeathTest, KernelsOfTwoStreams) {
  int out = 0;
  EXPECT_RACE({
    Stream first;
    Stream second;
    first.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
    second.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
    first.Wait();
    second.Wait();
  });
}

TEST(RaceTest, AnEventOrdersTwoStreams) {
  int out = 0;
  Stream first;
  Stream second;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  first.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
  ASSERT_EQ(cudaEventRecord(event, first.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second.get(), event, 0), cudaSuccess);
  second.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
  second.Wait();
  EXPECT_EQ(out, 1);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// Only CUDA calls order the host after a kernel. Polling memory that the kernel writes does not.
// Enqueuing more work on its stream does not either, although the emulated stream has a lock.
__global__ void WriteAndTell(int* out, int* told) {
  *out = 1;
  atomicAdd(told, 1);
}
TEST_F(RaceDeathTest, KernelsOfTwoStreamsThatHappenToComeOneAfterTheOther) {
  int out = 0;
  int told = 0;
  int other = 0;
  EXPECT_RACE({
    Stream first;
    Stream second;
    first.Run(WriteAndTell, {dim3(1), dim3(1)}, &out, &told);
    while (__atomic_load_n(&told, __ATOMIC_RELAXED) == 0) std::this_thread::yield();
    first.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &other);
    second.Run(EveryBlockTheSameWord, {dim3(1), dim3(32)}, &out);
    first.Wait();
    second.Wait();
  });
}

// The host may not touch what a stream has yet to read.
TEST_F(RaceDeathTest, TheHostWritesWhatACopyReads) {
  int from = 0;
  int to = 0;
  EXPECT_RACE({
    Stream stream;
    ASSERT_EQ(cudaMemcpyAsync(&to, &from, sizeof(int), cudaMemcpyDefault, stream.get()),
              cudaSuccess);
    from = 1;
    stream.Wait();
  });
}

// Each block has its own shared memory: using the same name in another block is not a race.
__global__ void BlocksUseTheSameName(int* out) {
  ZEROTH_SHARED(int, values, [64]);
  values[threadIdx.x ^ blockIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = values[blockIdx.x];
}
TEST(RaceTest, SharedMemoryOfSeveralBlocks) {
  std::vector<int> out(9);
  RunKernel(BlocksUseTheSameName, {dim3(9), dim3(64)}, out.data());
  EXPECT_EQ(out, std::vector<int>(9, 1));
}

// Atomics do not race with each other, and order nothing else.
__global__ void Count(int* count) { atomicAdd(count, 1); }
TEST(RaceTest, AtomicsOfSeveralBlocks) {
  int count = 0;
  RunKernel(Count, {dim3(5), dim3(64)}, &count);
  EXPECT_EQ(count, 320);
}
__global__ void CountAndRead(int* count, int* out) {
  atomicAdd(count, 1);
  out[threadIdx.x] = *count;
}
TEST_F(RaceDeathTest, APlainReadBesideAtomics) {
  int count = 0;
  std::vector<int> out(64);
  EXPECT_RACE(RunKernel(CountAndRead, {dim3(1), dim3(64)}, &count, out.data()));
}

// The last block adds up what all have written: a fence before its atomic publishes a block's sum,
// and one after it lets the last block read them all.
template <bool kBefore, bool kAfter>
__global__ void LastBlockSums(int* parts, int* done, int* sum) {
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = 1;
  if (kBefore) __threadfence();
  const bool last = atomicAdd(done, 1) == static_cast<int>(gridDim.x) - 1;
  if (!last) return;
  if (kAfter) __threadfence();
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += parts[i];
}
TEST(RaceTest, FencesPublishThroughAnAtomic) {
  std::vector<int> parts(6);
  int done = 0;
  int sum = 0;
  RunKernel(LastBlockSums<true, true>, {dim3(6), dim3(32)}, parts.data(), &done, &sum);
  EXPECT_EQ(sum, 6);
}
TEST_F(RaceDeathTest, AFenceIsMissingOnEitherSide) {
  std::vector<int> parts(6);
  int done = 0;
  int sum = 0;
  const LaunchShape shape = {dim3(6), dim3(32)};
  EXPECT_RACE(RunKernel(LastBlockSums<false, true>, shape, parts.data(), &done, &sum));
  EXPECT_RACE(RunKernel(LastBlockSums<true, false>, shape, parts.data(), &done, &sum));
}

}  // namespace
}  // namespace zeroth::cuda
