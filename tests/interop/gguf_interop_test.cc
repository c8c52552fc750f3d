// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GGUF files read by other programs: check_gguf.py, which shares no code with us, and, if this
// machine's Python has them, the public package "gguf" and llama.cpp.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tools/convert/convert.h"
#include "zeroth/tools/model/loaded_model.h"

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

// The recording, which llama.cpp is compared with where Python has it, and our own logits of the
// directory and of its GGUF file.
TEST(GgufLogitsTest, AreThoseOfTransformers) {
  const std::string directory = "tests/testdata/qwen3_5_gguf";
  const TemporaryDirectory dir;
  ConvertOptions convert;
  convert.in = directory;
  convert.out = dir.File("model.gguf");
  const auto converted = Convert(convert);
  ASSERT_TRUE(converted.ok()) << converted.status();
  const auto recorded = SafetensorsFile::Open(absl::StrCat(directory, "/logits_step0.safetensors"));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  const Shape shape = (*recorded)->ShapeOf("logits").value();
  const std::vector<float> expected = (*recorded)->ReadAll("logits", shape).value();
  const auto rows = OpenData(absl::StrCat(directory, "/tokens.npy"), {nullptr, 257});
  ASSERT_TRUE(rows.ok()) << rows.status();
  Batch batch;
  batch.batch = shape.dim(0);
  batch.seq = shape.dim(1);
  batch.inputs.resize(static_cast<size_t>(batch.batch * batch.seq));
  for (int64_t i = 0; i < batch.batch; ++i) {
    const auto inputs = absl::MakeSpan(batch.inputs).subspan(static_cast<size_t>(i * batch.seq));
    // A row of the file also has the last token's target.
    ASSERT_TRUE(
        (*rows)->Read(i * (batch.seq + 1), inputs.first(static_cast<size_t>(batch.seq))).ok());
  }
  batch.targets = batch.inputs;
  for (const std::string& path : {directory, convert.out}) {
    LoadModelOptions options;
    options.model = path;
    options.threads = 1;
    const auto model = LoadedModel::Open(options);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto logits = (*model)->Logits(batch);
    ASSERT_TRUE(logits.ok()) << logits.status();
    ASSERT_EQ(logits->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR((*logits)[i], expected[i], 5e-5f) << path << ", logit " << i;
    }
  }
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
