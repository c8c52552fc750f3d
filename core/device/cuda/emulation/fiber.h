// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_EMULATION_FIBER_H_
#define ZEROTH_CORE_DEVICE_CUDA_EMULATION_FIBER_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace zeroth::cuda::emulation {

// A function with a stack of its own, which runs in turns with whoever resumes it: a CUDA thread
// waits for others in the middle of a function, and a block of 1024 would cost as many host
// threads. Known to the address and thread sanitizers. A fiber is resumed by one host thread only.
//
// For the thread sanitizer a fiber is a thread like any other; starting it, and going back and
// forth, order nothing: whoever wants an order says so, by Edges.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Begins `body` at the next Resume(). The fiber must be done, or new.
  void Start(std::function<void()> body);
  // Runs the body until it suspends or returns.
  void Resume();
  // From inside the body: goes back to Resume()'s caller.
  void Suspend();
  bool done() const;
  // What the thread sanitizer calls it.
  void SetName(const char* name);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace zeroth::cuda::emulation

#endif  // ZEROTH_CORE_DEVICE_CUDA_EMULATION_FIBER_H_
