// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The few file operations that everything durable is built from.

#ifndef ZEROTH_CORE_BASE_FILE_FILE_UTIL_H_
#define ZEROTH_CORE_BASE_FILE_FILE_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// The whole file. InvalidArgument if it holds more than `max_bytes`, found before anything is read;
// errors as RandomAccessFile's.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes = std::numeric_limits<size_t>::max());

// Creates or replaces `path`; the bytes are on stable storage when this returns. Not atomic: write
// to a temporary place and rename.
absl::Status WriteFileDurably(const std::string& path, absl::string_view content);

// Writes all of `bytes` at `offset` of an open file, retrying short writes. `path` is for the
// message.
absl::Status WriteAt(int fd, const std::string& path, int64_t offset,
                     absl::Span<const uint8_t> bytes);

// Whether there is a regular file, or a link to one; false also where that cannot be known.
bool IsFile(const std::string& path);

// rename(2), and removing whatever is at `path`, which need not be anything.
absl::Status RenamePath(const std::string& from, const std::string& to);
absl::Status RemoveAll(const std::string& path);

// `path` with symbolic links resolved, as far as it exists, and without a slash at its end.
absl::StatusOr<std::string> CanonicalPath(const std::string& path);

// Makes earlier creations and renames inside `directory` survive a power failure.
absl::Status SyncDirectory(const std::string& directory);

// Flushes and closes an open temporary file, and gives it its name, for good: what comes after a
// power failure is nothing or all of it. `*fd` is -1 once it is closed, and from then on nothing is
// left of the temporary file after an error; before, it is the caller's to remove.
absl::Status PublishFile(int* fd, const std::string& temporary, const std::string& path);

// "<path>.<tag>-<16 random digits>": a sibling of `path` that no other call returns, on whatever
// machine, in this process or another of the same number. See temporary_path.h.
std::string TemporarySibling(const std::string& path, absl::string_view tag);

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_FILE_FILE_UTIL_H_
