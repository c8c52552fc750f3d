// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests graphs of the emulated runtime: what they replay, and what they refuse as CUDA does.

#include <cuda_runtime_api.h>

#include <functional>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

namespace zeroth::cuda::emulation {
namespace {

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    for (cudaStream_t* stream : {&first_, &second_, &third_}) {
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    }
    for (cudaEvent_t* event : {&fork_, &join_}) {
      EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    }
  }
  ~CaptureTest() override {
    if (playable_ != nullptr) {
      EXPECT_EQ(cudaGraphExecDestroy(playable_), cudaSuccess);
    }
    for (cudaEvent_t event : {fork_, join_}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    for (cudaStream_t stream : {first_, second_, third_}) {
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    static_cast<void>(cudaGetLastError());
  }

  static void Run(cudaStream_t stream, std::function<void()> work) {
    EXPECT_TRUE(EnqueueOnEmulatedStream(stream, std::move(work)).ok());
  }
  void Begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_EQ(cudaStreamBeginCapture(first_, mode), cudaSuccess);
  }
  void Order(cudaEvent_t event, cudaStream_t before, cudaStream_t after) {
    EXPECT_EQ(cudaEventRecord(event, before), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(after, event, 0), cudaSuccess);
  }
  void End() {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(first_, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&playable_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  cudaError_t EndInError() {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(first_, &graph);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(first_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    return ended;
  }
  void Play(cudaStream_t stream) { EXPECT_EQ(cudaGraphLaunch(playable_, stream), cudaSuccess); }
  void Wait(cudaStream_t stream) { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }

  cudaStream_t first_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaStream_t third_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  cudaGraphExec_t playable_ = nullptr;
};

TEST_F(CaptureTest, NothingRunsUntilItIsPlayedAndThenEachTime) {
  int count = 0;
  int seen = 0;
  Begin();
  Run(first_, [&] { ++count; });
  EXPECT_EQ(cudaMemcpyAsync(&seen, &count, sizeof(int), cudaMemcpyDeviceToDevice, first_),
            cudaSuccess);
  End();
  Wait(first_);
  EXPECT_EQ(count, 0);
  for (int i = 0; i < 3; ++i) Play(first_);
  Wait(first_);
  EXPECT_EQ(seen, 3);
  count = 10;
  Play(second_);
  Wait(second_);
  EXPECT_EQ(seen, 11);
}

// A wrong order of the two streams would show in the sums, a missing one to the thread sanitizer.
TEST_F(CaptureTest, EventsOrderStreamsInsideOfTheGraph) {
  std::vector<int> values(1000);
  long sum = 0;
  long more = 0;
  Begin();
  Run(first_, [&] { std::iota(values.begin(), values.end(), 1); });
  Order(fork_, first_, second_);
  Run(second_, [&] { sum = std::accumulate(values.begin(), values.end(), 0L); });
  Order(join_, second_, first_);
  Run(first_, [&] { more = sum + 1; });
  // Back and forth once more, with the same events.
  Order(fork_, first_, second_);
  Run(second_, [&] { values.assign(values.size(), 0); });
  Order(join_, second_, first_);
  Run(first_, [&] { more += values[7]; });
  End();
  for (int i = 0; i < 20; ++i) {
    Play(first_);
    Run(first_, [&] {
      EXPECT_EQ(sum, 500500);
      EXPECT_EQ(more, 500501);
      more = 0;
    });
  }
  Wait(first_);
}

TEST_F(CaptureTest, AGraphDoesNotRunBesideItself) {
  int count = 0;
  Begin();
  Run(first_, [&] { ++count; });
  End();
  for (int i = 0; i < 50; ++i) Play(i % 2 == 0 ? first_ : second_);
  Wait(first_);
  Wait(second_);
  EXPECT_EQ(count, 50);
}

TEST_F(CaptureTest, AnUnjoinedStreamIsAnError) {
  Begin();
  Order(fork_, first_, second_);
  Order(join_, second_, first_);
  Run(second_, [] {});
  EXPECT_EQ(EndInError(), cudaErrorStreamCaptureUnjoined);
  int value = 0;
  Run(second_, [&] { value = 1; });
  Wait(second_);
  EXPECT_EQ(value, 1) << "the streams run again";
}

TEST_F(CaptureTest, EventsFromOutsideAreErrors) {
  EXPECT_EQ(cudaEventRecord(fork_, second_), cudaSuccess);
  Begin();
  EXPECT_EQ(cudaStreamWaitEvent(first_, fork_, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_TRUE(!EnqueueOnEmulatedStream(first_, [] {}).ok()) << "the capture is spoiled";
  EXPECT_EQ(EndInError(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, EventsOfACaptureAreErrorsOutside) {
  Begin();
  EXPECT_EQ(cudaEventRecord(fork_, first_), cudaSuccess);
  End();
  EXPECT_EQ(cudaStreamWaitEvent(second_, fork_, 0), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventQuery(fork_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(fork_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventRecord(fork_, second_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(fork_), cudaSuccess) << "recorded anew";
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
  Begin();
  EXPECT_EQ(cudaStreamBeginCapture(second_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(fork_, second_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(first_, fork_, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(EndInError(), cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(second_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, WhatWaitsIsRefusedAndSpoilsTheCapture) {
  int word = 0;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(fork_, second_), cudaSuccess);
  const std::pair<std::function<cudaError_t()>, cudaError_t> calls[] = {
      {[&] { return cudaStreamSynchronize(first_); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaStreamQuery(first_); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaEventQuery(fork_); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaFree(memory); }, cudaErrorStreamCaptureUnsupported},
      {[&] { return cudaMemcpy(memory, &word, sizeof(word), cudaMemcpyHostToDevice); },
       cudaErrorStreamCaptureImplicit},
  };
  for (const auto& [call, expected] : calls) {
    Begin();
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(EndInError(), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(CaptureTest, ARelaxedThreadMayAllocate) {
  void* memory = nullptr;
  Begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  std::thread([&] {
    EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess) << "another thread's capture";
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }).join();
  End();
}

TEST_F(CaptureTest, ACaptureEndsWhereItBegan) {
  Begin();
  Order(fork_, first_, second_);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(third_, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamEndCapture(second_, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(EndInError(), cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal),
            cudaErrorIllegalState);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(EndInError(), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace zeroth::cuda::emulation
