// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The basic file operations of durable writes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/file_descriptor.h"

namespace zeroth {

// Reads the whole file. InvalidArgument if it has more than `max_bytes`, which is checked before
// reading. Other errors as RandomAccessFile's.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes = std::numeric_limits<size_t>::max());

// Creates or replaces `path`. The bytes are on stable storage when this returns. Not atomic: to
// replace a file atomically, write a temporary file and rename it.
absl::Status WriteFileDurably(const std::string& path, absl::string_view content);

// Writes all of `bytes` at `offset` of an open file, retrying short writes. `path` is for the
// message.
absl::Status WriteAt(int fd, const std::string& path, int64_t offset,
                     absl::Span<const uint8_t> bytes);

// True if `path` is a regular file, or a link to one. False also if that cannot be determined.
bool IsFile(const std::string& path);

// True for a plain file name: one that in any directory names an entry of that directory.
bool IsPlainFileName(absl::string_view name);
// True if `path` exists. An error of the file system (EIO, ESTALE) does not count as "no".
absl::StatusOr<bool> PathExists(const std::string& path);

// OK if a program may write to `path`, the value of `flag` ("--out"): there is nothing, or
// `overwrite` is set and `is_kind`, which is asked only then, says that the program could have
// written what is there. Otherwise AlreadyExists, which names --overwrite or that `kind` ("a GGUF
// file").
absl::Status CheckOutput(absl::string_view flag, const std::string& path, bool overwrite,
                         absl::string_view kind,
                         absl::FunctionRef<bool(const std::string& path)> is_kind);

// NotFound, in the words of a flag, unless a file can be made at `path`: its directory exists.
absl::Status CheckDirectoryOf(absl::string_view flag, const std::string& path);

// Renames as rename(2) does.
absl::Status RenamePath(const std::string& from, const std::string& to);
// Removes the file or directory at `path`, if there is one.
absl::Status RemoveAll(const std::string& path);

// `path` with symbolic links resolved, as far as it exists, and without a slash at its end.
absl::StatusOr<std::string> CanonicalPath(const std::string& path);

// Makes earlier creations and renames inside `directory` survive a power failure.
absl::Status SyncDirectory(const std::string& directory);

// Flushes an open temporary file, renames it to `path` and closes it, durably: after a power
// failure `path` has all of it or none. After an error with `file` still open, the caller has to
// remove the temporary file; otherwise it is gone.
absl::Status PublishFile(FileDescriptor& file, const std::string& temporary,
                         const std::string& path);

// "<path>.<tag>-<16 random digits>": a sibling of `path` that no other call returns, in any process
// on any machine. See temporary_path.h.
std::string TemporarySibling(const std::string& path, absl::string_view tag);

}  // namespace zeroth
