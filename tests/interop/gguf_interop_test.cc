// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GGUF files read by others: check_gguf.py, which shares nothing with our code, and, where this
// machine's Python has them, the public package "gguf" and llama.cpp itself.

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/tools/convert/convert.h"

namespace zeroth {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;
};

// ZEROTH_PYTHON names another interpreter: one of a virtual environment that has the package.
Outcome RunPython(const TemporaryDirectory& dir, const std::string& arguments) {
  const char* const named = std::getenv("ZEROTH_PYTHON");
  const std::string log = dir.File("log");
  const int status = std::system(
      absl::StrCat(named == nullptr ? "python3" : named, " ", arguments, " >", log, " 2>&1")
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadTestFile(log)};
}

// Exit code of a script that lacks the package that it is about.
constexpr int kNoPackage = 77;

class GgufInteropTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (RunPython(dir_, "-c pass").exit_code != 0) GTEST_SKIP() << "this machine has no python3";
    ConvertOptions options;
    options.in = absl::StrCat("tests/testdata/", GetParam());
    options.out = dir_.File("model.gguf");
    const auto converted = Convert(options);
    ASSERT_TRUE(converted.ok()) << converted.status();
  }

  // One of the scripts beside this file, on the model and on what was made of it.
  Outcome Check(const std::string& script, const std::string& flags = "") {
    return RunPython(dir_, absl::StrCat("tests/interop/", script, " tests/testdata/", GetParam(),
                                        " ", dir_.File("model.gguf"), " ", flags));
  }

  TemporaryDirectory dir_;
};

TEST_P(GgufInteropTest, AnIndependentReaderFindsTheSameModel) {
  const Outcome outcome = Check("check_gguf.py");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  // The script notices when a single bit is another.
  std::string bytes = ReadTestFile(dir_.File("model.gguf"));
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  dir_.Write("model.gguf", bytes);
  EXPECT_EQ(Check("check_gguf.py").exit_code, 1);
}

TEST_P(GgufInteropTest, ThePublicPackageFindsTheSameModel) {
  const Outcome outcome = Check("check_gguf.py", "--with-gguf-package");
  if (outcome.exit_code == kNoPackage) {
    GTEST_SKIP() << "python3 has no package gguf (pip install gguf; ZEROTH_PYTHON names another "
                    "interpreter)";
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(GgufInteropTest, LlamaCppComputesTheRecordedLogits) {
  const Outcome outcome = Check("check_llama_cpp.py");
  if (outcome.exit_code == kNoPackage) {
    GTEST_SKIP() << "python3 has no package llama_cpp (pip install llama-cpp-python; ZEROTH_PYTHON "
                    "names another interpreter)";
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Models, GgufInteropTest, ::testing::Values("gpt2_tiny", "llama_tiny"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace zeroth
