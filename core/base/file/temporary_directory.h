// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace zeroth {

// For tests: a fresh directory that disappears with this object. Failures abort, since a test needs
// its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  explicit TemporaryDirectory(const std::string& parent);
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }
  // "<path>/<name>".
  std::string File(absl::string_view name) const;
  // Writes `content` to File(name), creating directories on the way; returns the path.
  std::string Write(absl::string_view name, absl::string_view content) const;
  // Returns the names of everything directly inside, sorted.
  std::vector<std::string> List() const;

 private:
  std::string path_;
};

// Returns the bytes of a file; aborts if it cannot be read.
std::string ReadTestFile(const std::string& path);

}  // namespace zeroth
