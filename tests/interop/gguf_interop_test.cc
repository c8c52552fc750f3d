// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GGUF files read by other programs: check_gguf.py, which shares no code with us, and, if this
// machine's Python has them, the public package "gguf" and llama.cpp.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tools/convert/convert.h"

namespace zeroth {
namespace {

// Exit code of a script that lacks its package.
constexpr int kNoPackage = 77;

class GgufInteropTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!PythonHas("json")) GTEST_SKIP() << "this machine has no python3";
    ConvertOptions options;
    options.in = absl::StrCat("tests/testdata/", GetParam());
    options.out = dir_.File("model.gguf");
    const auto converted = Convert(options);
    ASSERT_TRUE(converted.ok()) << converted.status();
  }

  // Runs one of the scripts in this folder on the model and on its GGUF file.
  PythonOutcome Check(const std::string& script, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(),
                 {absl::StrCat("tests/testdata/", GetParam()), dir_.File("model.gguf")});
    return RunPython(script, flags);
  }

  TemporaryDirectory dir_;
};

TEST_P(GgufInteropTest, AnIndependentReaderFindsTheSameModel) {
  const PythonOutcome outcome = Check("check_gguf.py");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  // The script detects a single flipped bit.
  std::string bytes = ReadTestFile(dir_.File("model.gguf"));
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  dir_.Write("model.gguf", bytes);
  EXPECT_EQ(Check("check_gguf.py").exit_code, 1);
}

TEST_P(GgufInteropTest, ThePublicPackageFindsTheSameModel) {
  const PythonOutcome outcome = Check("check_gguf.py", {"--with-gguf-package"});
  if (outcome.exit_code == kNoPackage) {
    GTEST_SKIP() << HowToGetPythonPackages();
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

class LlamaCppTest : public GgufInteropTest {};

TEST_P(LlamaCppTest, LlamaCppComputesTheRecordedLogits) {
  const PythonOutcome outcome = Check("check_llama_cpp.py");
  if (outcome.exit_code == kNoPackage) {
    GTEST_SKIP() << "Python has no package llama_cpp, which is compiled when it is installed: set "
                    "ZEROTH_PYTHON to one in which you ran pip install llama-cpp-python";
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

std::string NameOf(const ::testing::TestParamInfo<const char*>& model) { return model.param; }

INSTANTIATE_TEST_SUITE_P(Models, GgufInteropTest,
                         ::testing::Values("gpt2_tiny", "gpt_oss_tiny", "llama_tiny",
                                           "llama31_tiny", "mistral_tiny", "olmo2_tiny",
                                           "qwen2_tiny", "qwen3_tiny", "qwen3_moe_tiny",
                                           "qwen3_5_gguf"),
                         NameOf);

// But gpt_oss_tiny, since llama.cpp rounds the bounds of YaRN's ramp to whole pairs.
INSTANTIATE_TEST_SUITE_P(Models, LlamaCppTest,
                         ::testing::Values("gpt2_tiny", "llama_tiny", "llama31_tiny",
                                           "mistral_tiny", "olmo2_tiny", "qwen2_tiny", "qwen3_tiny",
                                           "qwen3_moe_tiny", "qwen3_5_gguf"),
                         NameOf);

}  // namespace
}  // namespace zeroth
