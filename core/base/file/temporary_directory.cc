// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/temporary_directory.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"

namespace zeroth {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() : TemporaryDirectory(fs::temp_directory_path().string()) {}

TemporaryDirectory::TemporaryDirectory(const std::string& parent) {
  std::string pattern = absl::StrCat(parent, "/zeroth-test-XXXXXX");
  ZEROTH_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryDirectory::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::string TemporaryDirectory::Write(absl::string_view name, absl::string_view content) const {
  std::string path = File(name);
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  ZEROTH_CHECK(file.good());
  return path;
}

std::vector<std::string> TemporaryDirectory::List() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ZEROTH_CHECK(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace zeroth
