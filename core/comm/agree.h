// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"

namespace zeroth {

// Returns OK on every rank if `mine` is OK on every rank. Otherwise returns, on every rank, the
// error of the lowest rank that has one, with "rank R: " before its message. Use it for errors that
// need not break the world: then all ranks continue, or none. Collective, and a barrier. Waits for
// the device's compute stream. An error of the communicator takes precedence.
absl::Status AgreeOnStatus(Communicator& world, Device& device, const absl::Status& mine,
                           absl::string_view label);

// Returns the text of rank `root` on every rank. Collective. InvalidArgument on every rank if it is
// longer than 2^30 bytes.
absl::StatusOr<std::string> BroadcastText(Communicator& world, Device& device, int root,
                                          const std::string& text, absl::string_view label);

}  // namespace zeroth
