// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/device.h"

namespace zeroth {

// Returns why this machine has no device of a linked-in kind, or OK: the message of a skipped test.
// The test itself reports other errors of the device.
inline absl::Status MissingDevice(absl::string_view type) {
  const absl::Status status = DeviceRegistry::Create(type, DeviceOptions()).status();
  return absl::IsFailedPrecondition(status) ? status : absl::OkStatus();
}

}  // namespace zeroth

// Skips the rest of a test function if the machine has no such device.
#define ZEROTH_SKIP_WITHOUT_DEVICE(type)                                                       \
  if (const absl::Status zeroth_missing = ::zeroth::MissingDevice(type); !zeroth_missing.ok()) \
  GTEST_SKIP() << zeroth_missing
