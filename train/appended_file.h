// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_APPENDED_FILE_H_
#define ZEROTH_TRAIN_APPENDED_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// A file that grows record by record and can be read meanwhile. Bytes that cannot be written are
// kept and written before the next record: after an error records are late, but none is lost or
// torn. Errors name the path and the reason.
class AppendedFile {
 public:
  // `flags` are added to the flags of open(2) for appending: O_TRUNC empties the file.
  static absl::StatusOr<AppendedFile> Open(const std::string& path, int flags);
  AppendedFile(AppendedFile&& other) noexcept;
  AppendedFile& operator=(AppendedFile&&) = delete;
  ~AppendedFile();

  absl::Status Append(absl::string_view record);

 private:
  AppendedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  std::string unwritten_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_APPENDED_FILE_H_
