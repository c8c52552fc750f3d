// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the thread sanitizer is told of emulated threads: which accesses count, and what orders
// them. It then judges kernels by CUDA's rules and not by the order in which the emulation happens
// to run them. Without the sanitizer everything here is empty.

#ifndef ZEROTH_CORE_DEVICE_CUDA_EMULATION_WATCHED_H_
#define ZEROTH_CORE_DEVICE_CUDA_EMULATION_WATCHED_H_

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

// For functions that keep the emulation's own books on behalf of many emulated threads.
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

// While it lives, what this thread reads, writes and allocates does not count; nor, with
// `also_locks`, what its locks and atomics would order.
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

// `count` meeting places: whoever acquires one comes after everything that those who released it
// before had done. On the heap, since the sanitizer forgets a place when its memory is freed, and
// only then.
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
  static constexpr size_t kApart = 8;  // the sanitizer tells places apart that are so far apart
  char* places_;
#endif
};

}  // namespace zeroth::cuda::emulation

#endif  // ZEROTH_CORE_DEVICE_CUDA_EMULATION_WATCHED_H_
