// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/cuda/emulation/watched.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace zeroth::cuda::emulation {
namespace {

// Accumulators of a thread live in local arrays; sanitizers surround each with as much again.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = size_t{512} << 10;
#else
constexpr size_t kStackBytes = size_t{128} << 10;
#endif

}  // namespace

#if defined(__x86_64__)
// Saves what a callee must keep, stores the stack pointer in *from, and continues at `to`.
// Switching by swapcontext would make two system calls each time.
extern "C" void ZerothSwitchStack(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl ZerothSwitchStack
.type ZerothSwitchStack,@function
ZerothSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ZerothSwitchStack, .-ZerothSwitchStack
)");
#endif

struct Fiber::Context {
  Context();
  ~Context();

  void Prepare();
  // The switches are unwatched: the sanitizer's record of the stack needs balanced calls, and a
  // body that is abandoned at its end would let that record grow from use to use.
  ZEROTH_UNWATCHED void SwitchIn();
  ZEROTH_UNWATCHED void SwitchOut(bool for_good);
  ZEROTH_UNWATCHED static void Main();

  std::function<void()> body;
  bool done = true;
  std::byte* mapping = nullptr;
  size_t mapping_bytes = 0;
  std::byte* stack = nullptr;
#if defined(__x86_64__)
  void* fiber_sp = nullptr;
  void* caller_sp = nullptr;
#else
  ucontext_t fiber_context;
  ucontext_t caller_context;
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fiber_fake_stack = nullptr;
  void* caller_fake_stack = nullptr;
  const void* caller_stack = nullptr;
  size_t caller_stack_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_fiber = nullptr;
  void* tsan_caller = nullptr;
#endif
};

namespace {

// Passed to a fiber's first function, which has no parameters.
thread_local void* starting_context = nullptr;

}  // namespace

Fiber::Context::Context() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapping_bytes = kStackBytes + page;
  void* const mapped = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ZEROTH_CHECK(mapped != MAP_FAILED);
  mapping = static_cast<std::byte*>(mapped);
  // A kernel whose locals do not fit must not write into another fiber's stack.
  ZEROTH_CHECK(mprotect(mapping, page, PROT_NONE) == 0);
  stack = mapping + page;
#if defined(__SANITIZE_THREAD__)
  tsan_fiber = __tsan_create_fiber(0);
#endif
}

Fiber::Context::~Context() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber);
#endif
  munmap(mapping, mapping_bytes);
}

void Fiber::Context::Prepare() {
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(stack + kStackBytes);
  // As if called: the stack is 8 bytes off a multiple of 16 at the function's first instruction.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Context::Main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that a switch restores
  fiber_sp = top;
#else
  ZEROTH_CHECK(getcontext(&fiber_context) == 0);
  fiber_context.uc_stack.ss_sp = stack;
  fiber_context.uc_stack.ss_size = kStackBytes;
  fiber_context.uc_link = nullptr;
  makecontext(&fiber_context, &Context::Main, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  fiber_fake_stack = nullptr;
#endif
}

void Fiber::Context::SwitchIn() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack, stack, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  ZerothSwitchStack(&caller_sp, fiber_sp);
#else
  swapcontext(&caller_context, &fiber_context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::Context::SwitchOut([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fiber_fake_stack, caller_stack,
                                 caller_stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_caller, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  ZerothSwitchStack(&fiber_sp, caller_sp);
#else
  swapcontext(&fiber_context, &caller_context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber_fake_stack, &caller_stack, &caller_stack_bytes);
#endif
}

void Fiber::Context::Main() {
  auto* const self = static_cast<Context*>(starting_context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack, &self->caller_stack_bytes);
#endif
  self->body();
  self->done = true;
  self->SwitchOut(/*for_good=*/true);
  __builtin_unreachable();
}

Fiber::Fiber() : context_(std::make_unique<Context>()) {}
Fiber::~Fiber() = default;

void Fiber::Start(std::function<void()> body) {
  const Unwatched unwatched;
  ZEROTH_CHECK(context_->done);
  context_->body = std::move(body);
  context_->done = false;
  context_->Prepare();
}

ZEROTH_UNWATCHED void Fiber::Resume() {
  ZEROTH_CHECK(!context_->done);
  starting_context = context_.get();
  context_->SwitchIn();
}

ZEROTH_UNWATCHED void Fiber::Suspend() { context_->SwitchOut(/*for_good=*/false); }

ZEROTH_UNWATCHED bool Fiber::done() const { return context_->done; }

void Fiber::SetName([[maybe_unused]] const char* name) {
#if defined(__SANITIZE_THREAD__)
  __tsan_set_fiber_name(context_->tsan_fiber, name);
#endif
}

}  // namespace zeroth::cuda::emulation
