// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The file in which rank 0 tells the other ranks where to connect, and the job's key. Only this
// user can read it.

#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/process/handshake.h"

namespace zeroth {

struct MeetingPlace {
  std::string host;
  int port = 0;
  JobKey key;

  // One line: "host port id secret".
  std::string ToText() const;
  // Returns none for any other text.
  static std::optional<MeetingPlace> Parse(absl::string_view text);
};

// Replaces an older file; readers see all of the new one or nothing of it. The file has mode 0600,
// because it holds the job's secret. A symbolic link is replaced, not followed.
absl::Status WriteRendezvousFile(const std::string& path, const MeetingPlace& place);
// Returns none if there is no file yet, or its content is malformed. PermissionDenied if another
// user may have put it there: if it is a link, or another user owns it or can write to it.
absl::StatusOr<std::optional<MeetingPlace>> ReadRendezvousFile(const std::string& path);
// Removes the file if it is still the one for `place`.
void RemoveRendezvousFile(const std::string& path, const MeetingPlace& place);

}  // namespace zeroth
