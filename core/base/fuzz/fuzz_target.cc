// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/fuzz/fuzz_target.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/allocation_limit.h"

namespace zeroth {

bool RunFuzzTarget(const FuzzTarget& target, absl::Span<const uint8_t> file,
                   absl::string_view label) {
  std::string repaired;
  if (target.repair != nullptr) {
    repaired = target.repair({reinterpret_cast<const char*>(file.data()), file.size()});
    file = BytesOfText(repaired);
  }
  const AllocationLimit limit(target.largest_request * file.size() + kFuzzFreeBytes,
                              target.most_held * file.size() + kFuzzFreeBytes, label);
  return target.run(file);
}

MemoryFile::MemoryFile(absl::Span<const uint8_t> bytes)
    : fd_(memfd_create("zeroth_fuzz", MFD_CLOEXEC)) {
  ZEROTH_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    ZEROTH_CHECK(written > 0);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  path_ = absl::StrCat("/proc/self/fd/", fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

}  // namespace zeroth
