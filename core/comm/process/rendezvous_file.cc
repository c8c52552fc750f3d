// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/rendezvous_file.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace zeroth {

absl::Status WriteRendezvousFile(const std::string& path, const std::string& host, int port) {
  const std::string temporary = absl::StrCat(path, ".", getpid());
  bool written = false;
  {
    std::ofstream file(temporary);
    file << host << " " << port << "\n";
    file.close();
    written = !file.fail();
  }
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    static_cast<void>(std::remove(temporary.c_str()));
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot write the rendezvous file '", path,
        "'; set ZEROTH_RENDEZVOUS_FILE to a file in a writable directory that all ranks share"));
  }
  return absl::OkStatus();
}

std::optional<std::pair<std::string, int>> ReadRendezvousFile(const std::string& path) {
  std::ifstream file(path);
  std::string host;
  int port = 0;
  if (!(file >> host >> port) || port < 1 || port > 65535) return std::nullopt;
  return std::pair(host, port);
}

}  // namespace zeroth
