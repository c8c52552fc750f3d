// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tells the thread sanitizer about emulated threads: which accesses count, and what orders them. So
// it judges kernels by CUDA's rules, not by the order in which the emulation runs them. Without the
// sanitizer all of this is empty.

#pragma once

#include <cstddef>
#include <cstdlib>

#include "zeroth/core/base/check.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}

// For functions that manage the emulation's own state for many emulated threads.
#define ZEROTH_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define ZEROTH_UNWATCHED
#endif

namespace zeroth::cuda::emulation {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRacesAreWatched = true;
#else
inline constexpr bool kRacesAreWatched = false;
#endif

// While this exists, the thread's reads, writes and allocations do not count. With `also_locks`,
// neither do its locks and atomics.
class Unwatched {
 public:
#if defined(__SANITIZE_THREAD__)
  explicit Unwatched(bool also_locks = false) : also_locks_(also_locks) {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    if (also_locks_) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Unwatched() {
    if (also_locks_) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  explicit Unwatched(bool = false) {}
  ~Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

#if defined(__SANITIZE_THREAD__)
 private:
  const bool also_locks_;
#endif
};

// `count` places for ordering threads: a thread that acquires a place is ordered after all that
// threads did before they released it. On the heap, because the sanitizer forgets a place only when
// its memory is freed.
class Edges {
 public:
  explicit Edges([[maybe_unused]] size_t count) {
#if defined(__SANITIZE_THREAD__)
    places_ = static_cast<char*>(std::malloc(count * kApart));
    ZEROTH_CHECK(places_ != nullptr);
#endif
  }
  ~Edges() {
#if defined(__SANITIZE_THREAD__)
    std::free(places_);
#endif
  }
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;

  ZEROTH_UNWATCHED void Release([[maybe_unused]] size_t place) {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(places_ + place * kApart);
#endif
  }
  ZEROTH_UNWATCHED void Acquire([[maybe_unused]] size_t place) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(places_ + place * kApart);
#endif
  }

 private:
#if defined(__SANITIZE_THREAD__)
  static constexpr size_t kApart = 8;  // bytes between places that the sanitizer distinguishes
  char* places_;
#endif
};

}  // namespace zeroth::cuda::emulation
