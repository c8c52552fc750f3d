// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace {

// Libraries that every Linux with a C++ runtime has.
const std::set<std::string>& Taken() {
  static const std::set<std::string>& taken = *new std::set<std::string>{
      "libc",     "libm",    "libstdc++", "libgcc_s", "libpthread",      "libdl",           "librt",
      "ld-linux", "libasan", "libubsan",  "libtsan",  "ld-linux-x86-64", "ld-linux-aarch64"};
  return taken;
}

// The libraries that the trainer is linked with, without their versions.
std::set<std::string> Needed() {
  std::set<std::string> libraries;
  FILE* const pipe = popen("readelf --dynamic train/train", "r");
  if (pipe == nullptr) return libraries;
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0) << "readelf failed";
  const std::regex pattern("\\(NEEDED\\).*\\[([^\\]]+?)\\.so[^\\]]*\\]");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    libraries.insert((*it)[1]);
  }
  return libraries;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(SharedLibrariesTest, TheDocumentAndTheImageNameWhatTheTrainerNeeds) {
  const std::string document = Read("docs/build.md");
  const std::string image = Read("Dockerfile");
  // The image need not install these: NVIDIA's CUDA image, on which Dockerfile builds, has its
  // libraries; only Clang's builds need libomp; and //tools/install copies Arrow's.
  const std::set<std::string> not_installed = {"libcublasLt", "libnccl", "libomp", "libarrow",
                                               "libparquet"};
  const std::set<std::string> needed = Needed();
  EXPECT_EQ(needed.count("libdnnl"), 1u) << "readelf printed something else than expected";
  for (const std::string& library : needed) {
    if (Taken().count(library) != 0) continue;
    EXPECT_NE(document.find("`" + library + "`"), std::string::npos)
        << library << " is not named in docs/build.md";
    // Debian's packages are called as the libraries are, with a version behind.
    if (not_installed.count(library) == 0) {
      EXPECT_NE(image.find(" " + library), std::string::npos)
          << "Dockerfile installs no package with " << library;
    }
  }
}

}  // namespace
