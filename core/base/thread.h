// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Starts a thread that calls `function`. ResourceExhausted if the system can start no more threads;
// the message says what this one is for.
template <typename Function>
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread for ", purpose, ": ", error.what()));
  }
}

// Calls `work` on `threads` threads, of which this is one, and returns when all calls have. Error
// of StartThread: then only those that have started have called it.
template <typename Work>
absl::Status RunOnThreads(size_t threads, absl::string_view purpose, const Work& work) {
  std::vector<std::thread> helpers;
  absl::Status started;
  while (started.ok() && helpers.size() + 1 < threads) {
    absl::StatusOr<std::thread> helper = StartThread(purpose, work);
    started = helper.status();
    if (helper.ok()) helpers.push_back(*std::move(helper));
  }
  if (started.ok()) work();
  for (std::thread& helper : helpers) helper.join();
  return started;
}

}  // namespace zeroth
