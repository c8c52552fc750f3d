// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests: a stream, and synchronous launches.

#pragma once

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"

namespace zeroth::cuda::emulation {

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  template <typename Kernel, typename... Arguments>
  void Run(Kernel kernel, LaunchShape shape, Arguments... arguments) {
    ASSERT_EQ(ZEROTH_LAUNCH(kernel, shape, stream_, arguments...), absl::OkStatus());
  }
  void Wait() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Runs a launch on a new stream and waits for it.
template <typename Kernel, typename... Arguments>
void RunKernel(Kernel kernel, LaunchShape shape, Arguments... arguments) {
  Stream stream;
  stream.Run(kernel, shape, arguments...);
  stream.Wait();
}

}  // namespace zeroth::cuda::emulation
