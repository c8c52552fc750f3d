// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the program: its input, its output, and the errors that it reports.

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GenerateProgramTest : public ::testing::Test {
 protected:
  bool Run(const std::string& program, const std::string& flags) {
    return std::system(
               absl::StrCat(program, " ", flags, " >", dir_.File("out"), " 2>", dir_.File("err"))
                   .c_str()) == 0;
  }
  bool Generate(const std::string& flags) { return Run("tools/generate/generate", flags); }
  std::string Out() const { return ReadTestFile(dir_.File("out")); }
  std::string Err() const { return ReadTestFile(dir_.File("err")); }

  const TemporaryDirectory dir_;
};

// A run's export and its checkpoint generate the same text, with and without adapters, which is
// also the trainer's sample.
TEST_F(GenerateProgramTest, ContinuesWhatATrainerHasWritten) {
  const std::string text(3000, 'a');
  std::string letters;
  for (size_t i = 0; i < text.size(); ++i) letters += static_cast<char>('a' + i % 5);
  const std::string data = dir_.Write("data.txt", letters);
  for (const std::string lora : {"", " --lora_rank=4 --lora_b_lr_scale=8"}) {
    const std::string out = dir_.File(lora.empty() ? "full" : "lora");
    ASSERT_TRUE(Run("train/train",
                    absl::StrCat("--data=", data, " --tokenizer=byte --out=", out,
                                 " --init_from=tests/testdata/llama_tiny --steps=60 --seq_len=32"
                                 " --lr=1e-2 --temperature=0 --prompt=abc --sample_tokens=12"
                                 " --checkpoint_every=60",
                                 lora)))
        << Err();
    const std::string said = Out();
    for (const std::string model : {"/final", "/step-00000060"}) {
      ASSERT_TRUE(Generate(
          absl::StrCat("--model=", out, model, " --prompt=abc --max_tokens=12 --temperature=0")))
          << Err();
      if (lora.empty()) {
        EXPECT_EQ(Out(), "abcdeabcdeabcde\n");
      }
      EXPECT_THAT(said, HasSubstr(absl::StrCat("sample: ", Out())));
      EXPECT_THAT(Err(), HasSubstr("12 tokens; 3 of the prompt in "));
      EXPECT_THAT(Err(), HasSubstr(" tokens/s\n"));
    }
  }
}

TEST_F(GenerateProgramTest, DrawsBySeedAndEndsAtTheEndOfText) {
  const std::string model = "--model=tests/testdata/gpt2_tiny --prompt=x --max_tokens=20";
  ASSERT_TRUE(Generate(absl::StrCat(model, " --seed=1"))) << Err();
  const std::string first = Out();
  EXPECT_THAT(first, StartsWith("x"));
  ASSERT_TRUE(Generate(absl::StrCat(model, " --seed=1")));
  EXPECT_EQ(Out(), first);
  ASSERT_TRUE(Generate(absl::StrCat(model, " --seed=2")));
  EXPECT_NE(Out(), first);
  ASSERT_TRUE(Generate(absl::StrCat(model, " --temperature=0")));
  const std::string likeliest = Out();
  for (const std::string certain : {"--top_k=1", "--top_p=1e-9"}) {
    ASSERT_TRUE(Generate(absl::StrCat(model, " --seed=3 ", certain)));
    EXPECT_EQ(Out(), likeliest);
  }
  ASSERT_TRUE(Generate(absl::StrCat(model, " --temperature=0 --precision=bf16"))) << Err();
  EXPECT_THAT(Err(), HasSubstr("20 tokens;"));
  // A prompt that fills the positions and more is cut on the left.
  ASSERT_TRUE(Generate(absl::StrCat(model, " --prompt=", std::string(100, 'y')))) << Err();
  EXPECT_THAT(Err(), HasSubstr("20 tokens; 100 of the prompt"));
  // generation_config.json names further tokens that end a text: here all of them.
  const std::string copy = dir_.File("model");
  ASSERT_TRUE(Run("cp", absl::StrCat("-rL tests/testdata/gpt2_tiny ", copy)));
  ASSERT_TRUE(Run("chmod", absl::StrCat("-R u+w ", copy)));
  std::string ids;
  for (int id = 0; id < 257; ++id) absl::StrAppend(&ids, id == 0 ? "" : ",", id);
  dir_.Write("model/generation_config.json", absl::StrCat("{\"eos_token_id\": [", ids, "]}"));
  ASSERT_TRUE(Generate(
      absl::StrCat("--max_tokens=20 --prompt=x --tokenizer=tests/testdata/tokenizers/gpt2_json "
                   "--model=",
                   copy)))
      << Err();
  EXPECT_EQ(Out(), "x\n");
  EXPECT_THAT(Err(), StartsWith("0 tokens;"));
}

TEST_F(GenerateProgramTest, SaysWhatIsWrong) {
  const auto error = [&](const std::string& flags) {
    EXPECT_FALSE(Generate(flags)) << flags;
    return Err();
  };
  EXPECT_THAT(error(""), StartsWith("error: --model is missing"));
  EXPECT_THAT(error("x"), HasSubstr("unexpected argument 'x'"));
  EXPECT_THAT(error("--model=nowhere"), HasSubstr("nowhere: "));
  for (const std::string flag : {"--adapter", "--lora"}) {
    EXPECT_THAT(error("--model=nowhere " + flag + "=x"),
                HasSubstr("there is no flag " + flag +
                          "; did you mean --model (it takes the directory of an adapter, too)?"));
  }
  const std::string model = "--model=tests/testdata/llama_tiny ";
  EXPECT_THAT(error(model + "--max_tokens=-1"), HasSubstr("max_tokens is -1, expected at least 0"));
  EXPECT_THAT(error(model + "--top_p=0"), HasSubstr("top_p is 0, expected more than 0"));
  EXPECT_THAT(error(model + "--system=Brief"), HasSubstr("--system needs --chat"));
  EXPECT_THAT(error(model + "--chat_template=chatml"), HasSubstr("--chat_template needs --chat"));
  EXPECT_THAT(error(model + "--precision=int8"), HasSubstr("expected fp32, bf16 or fp16"));
  EXPECT_THAT(error(model + "--base=x"), HasSubstr("--base=x is for an adapter"));
  EXPECT_THAT(error(model + "--device=abacus"),
              AllOf(HasSubstr("--device: no device of kind 'abacus'"), HasSubstr("zeroth_cuda13")));
  EXPECT_THAT(error(model + "--tokenizer=tests/testdata/tokenizers/llama3 --prompt=Gradienten"),
              HasSubstr("but the model's vocabulary ends at 256"));
  // The tokenizer of a GGUF file is read from a temporary directory, which nobody could mend.
  const std::string gguf = dir_.File("m.gguf");
  ASSERT_TRUE(Run("tools/convert/convert", "--in=tests/testdata/llama_tiny --out=" + gguf))
      << Err();
  EXPECT_THAT(error("--chat --prompt=x --model=" + gguf),
              StartsWith(absl::StrCat("error: ", gguf, " has no chat template")));
}

}  // namespace
}  // namespace zeroth
