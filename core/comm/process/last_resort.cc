// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/last_resort.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace zeroth {
namespace {

std::atomic<int64_t> time_ms{absl::ToInt64Milliseconds(LastResort::kTime)};

}  // namespace

LastResort::LastResort(std::function<std::string()> what)
    : thread_([this, time = absl::Milliseconds(time_ms.load()), what = std::move(what)] {
        Watch(time, what);
      }) {}

LastResort::~LastResort() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    in_time_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void LastResort::ShortenForTest(absl::Duration time) { time_ms = absl::ToInt64Milliseconds(time); }

void LastResort::Watch(absl::Duration time, const std::function<std::string()>& what) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (changed_.wait_for(lock, absl::ToChronoMilliseconds(time), [&] { return in_time_; })) {
      return;
    }
  }
  std::fprintf(stderr, "%s\n", what().c_str());
  std::fflush(stderr);
  // Runs no destructor, which could wait for what hangs.
  std::_Exit(EXIT_FAILURE);
}

}  // namespace zeroth
