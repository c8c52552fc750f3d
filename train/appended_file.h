// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_APPENDED_FILE_H_
#define ZEROTH_TRAIN_APPENDED_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// A file that grows record by record while a run can be watched. What cannot be written at once is
// kept, and goes on from where it stopped with the next record: after an error records are late,
// and none is lost or torn. Errors name the path and the reason.
class AppendedFile {
 public:
  // `flags` of open(2) beside those for appending: O_TRUNC to begin anew.
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
