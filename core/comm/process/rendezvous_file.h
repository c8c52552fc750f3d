// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What rank 0 leaves for the others in a file that they can read and nobody else: where it is met,
// and by what they know each other.

#ifndef ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_
#define ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_

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
  // None of what is no such text.
  static std::optional<MeetingPlace> Parse(absl::string_view text);
};

// Readers see all of it or nothing; it takes the place of an older one. The file is this user's
// alone (mode 0600): it holds the job's secret. What is a symbolic link is replaced, not followed.
absl::Status WriteRendezvousFile(const std::string& path, const MeetingPlace& place);
// None if there is no such file yet, or nothing of this form in it. PermissionDenied for what
// somebody else may have put there: a link, or what another user owns or can write.
absl::StatusOr<std::optional<MeetingPlace>> ReadRendezvousFile(const std::string& path);
// Removes it if it still is that of `place`.
void RemoveRendezvousFile(const std::string& path, const MeetingPlace& place);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_
