// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <system_error>
#include <thread>
#include <utility>

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

}  // namespace zeroth
