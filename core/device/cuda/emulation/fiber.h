// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace zeroth::cuda::emulation {

// A function with its own stack, which alternates with the code that resumes it. A CUDA thread
// waits for others in the middle of a function, and a block of 1024 threads would need as many host
// threads. The address and thread sanitizers know fibers. Only one host thread resumes a fiber.
//
// For the thread sanitizer a fiber is a thread. Starting, resuming and suspending it order nothing;
// use Edges for that.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Starts `body` at the next Resume(). The fiber must be new or done.
  void Start(std::function<void()> body);
  // Runs the body until it suspends or returns.
  void Resume();
  // Called inside the body: returns to the caller of Resume().
  void Suspend();
  bool done() const;
  // The name for the thread sanitizer.
  void SetName(const char* name);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace zeroth::cuda::emulation
