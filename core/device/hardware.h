// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Names the hardware of a device, for the keys of kept results: kernels choose their order of sums
// by it, so that the same program gives other bits on other hardware.

#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/device.h"

namespace zeroth {

// Returns the model of the device's hardware, such as
//   NVIDIA H200, compute capability 9.0, 132 multiprocessors
//   Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
// Unimplemented if the kind of device has not registered any; the device's errors. Thread-safe.
absl::StatusOr<std::string> HardwareName(const Device& device);

// Put one beside a kind's DeviceRegistration. A second registration of a kind is a bug and aborts.
struct HardwareNameRegistration {
  using NameOf = std::function<absl::StatusOr<std::string>(const Device&)>;

  HardwareNameRegistration(absl::string_view type, NameOf name_of);
};

}  // namespace zeroth
