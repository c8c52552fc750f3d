// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/fuzz/allocation_limit.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

std::atomic<bool> limited{false};
std::atomic<size_t> largest_allowed{0};
std::atomic<size_t> held_allowed{0};
std::atomic<int64_t> held{0};  // below zero when earlier memory is given back
std::atomic<const char*> input{""};

// Prints with fprintf, because streams and strings allocate.
[[noreturn]] void Refuse(const char* what, size_t bytes, size_t allowed) {
  limited = false;
  std::fprintf(stderr, "%s: %s %zu bytes, more than the %zu that a file of its size may cost\n",
               input.load(), what, bytes, allowed);
  std::abort();
}

// Returns null if there is no memory.
void* Allocate(size_t size, size_t alignment = alignof(std::max_align_t)) {
  if (limited && size > largest_allowed) Refuse("asks at once for", size, largest_allowed);
  const size_t positive = std::max<size_t>(size, 1);
  // Rounds the size up only where aligned_alloc requires it, so that a sanitizer finds accesses
  // beyond the exact size.
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(positive)
          : std::aligned_alloc(alignment, (positive + alignment - 1) / alignment * alignment);
  if (limited && memory != nullptr) {
    const auto usable = static_cast<int64_t>(malloc_usable_size(memory));
    const int64_t now = held.fetch_add(usable) + usable;
    if (now > static_cast<int64_t>(held_allowed)) {
      Refuse("holds", static_cast<size_t>(now), held_allowed);
    }
  }
  return memory;
}

void* AllocateOrThrow(size_t size, size_t alignment = alignof(std::max_align_t)) {
  void* const memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Free(void* memory) noexcept {
  if (limited && memory != nullptr) held -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

AllocationLimit::AllocationLimit(size_t largest_request, size_t most_held, absl::string_view label)
    : label_(label) {
  ZEROTH_CHECK(!limited);
  input = label_.c_str();
  largest_allowed = largest_request;
  held_allowed = most_held;
  held = 0;
  limited = true;
}

AllocationLimit::~AllocationLimit() {
  limited = false;
  input = "";
}

}  // namespace zeroth

// Replaces all forms, because memory from one must not reach another's delete.
void* operator new(size_t size) { return zeroth::AllocateOrThrow(size); }
void* operator new[](size_t size) { return zeroth::AllocateOrThrow(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  return zeroth::AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return zeroth::AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return zeroth::Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return zeroth::Allocate(size); }
void operator delete(void* memory) noexcept { zeroth::Free(memory); }
void operator delete[](void* memory) noexcept { zeroth::Free(memory); }
void operator delete(void* memory, size_t) noexcept { zeroth::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { zeroth::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { zeroth::Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { zeroth::Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { zeroth::Free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { zeroth::Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { zeroth::Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { zeroth::Free(memory); }
