// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// An address that rank 0 leaves for the others in a file which all can read.

#ifndef ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_
#define ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace zeroth {

// Writes "host port" so that readers see all of it or nothing, in place of an older one.
absl::Status WriteRendezvousFile(const std::string& path, const std::string& host, int port);
// None if there is no such file yet, or nothing of this form in it.
std::optional<std::pair<std::string, int>> ReadRendezvousFile(const std::string& path);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_RENDEZVOUS_FILE_H_
