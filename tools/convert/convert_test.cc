// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/convert/convert.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] = "tests/testdata/gpt2_tiny/";

ConvertOptions Options(const std::string& in, const std::string& out) {
  ConvertOptions options;
  options.in = in;
  options.out = out;
  return options;
}

std::string Message(const ConvertOptions& options) {
  const auto notes = Convert(options);
  return notes.ok() ? "converted" : std::string(notes.status().message());
}

TEST(ConvertTest, ADirectoryToGgufAndBack) {
  const TemporaryDirectory dir;
  const auto notes = Convert(Options(kModel, dir.File("m.gguf")));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_EQ(notes->at(1), "Its vocabulary is the bytes.");
  const auto file = GgufFile::Open(dir.File("m.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->metadata().GetString("general.name"), "gpt2_tiny");
  ConvertOptions back = Options(dir.File("m.gguf"), dir.File("back"));
  back.dtype = "bf16";
  ASSERT_EQ(Message(back), "converted");
  const auto model = HfDirectory::Open(dir.File("back"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->weights().Find("transformer.ln_f.weight")->dtype, SafetensorsDType::kBF16);
  // The tokenizer's files were copied, and are used when the model is converted to GGUF again.
  const auto again = Convert(Options(dir.File("back"), dir.File("again.gguf")));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->at(1), HasSubstr("tokenizer files"));
  const auto second = GgufFile::Open(dir.File("again.gguf"));
  ASSERT_TRUE(second.ok()) << second.status();
  for (const auto& [key, value] : (*file)->metadata().values()) {
    if (key == "general.name" || key == "general.file_type") continue;
    ASSERT_TRUE((*second)->metadata().Has(key)) << key;
    EXPECT_TRUE(*(*second)->metadata().Find(key) == value) << key;
  }
}

TEST(ConvertTest, AModelOfLlmCByItsContent) {
  const TemporaryDirectory dir;
  std::array<int32_t, 256> header = {20240326, 3, 1, 1, 1, 1, 1, 1};
  std::string text(reinterpret_cast<const char*>(header.data()), sizeof(header));
  const size_t parameters = 1 + 1 + 2 + 12 + 13;
  text.append(parameters * 4, '\0');
  const auto notes = Convert(Options(dir.Write("model", text), dir.File("hf")));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(notes->at(1), HasSubstr("no tokenizer"));
  EXPECT_TRUE(HfDirectory::Open(dir.File("hf")).ok());
}

TEST(ConvertTest, ADirectoryInAnotherTypeAndInSeveralFiles) {
  const TemporaryDirectory dir;
  ConvertOptions options = Options(kModel, dir.File("hf"));
  options.dtype = "bf16";
  options.max_shard_size = "20KB";
  const auto notes = Convert(options);
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(notes->at(0), HasSubstr("Hugging Face directory"));
  const auto model = HfDirectory::Open(dir.File("hf"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*model->config().GetString("torch_dtype"), "bfloat16");
  EXPECT_TRUE(std::filesystem::exists(dir.File("hf/model.safetensors.index.json")));
  // From files, too.
  ASSERT_EQ(Message(Options(kModel, dir.File("m.gguf"))), "converted");
  options.in = dir.File("m.gguf");
  options.out = dir.File("from_gguf");
  ASSERT_EQ(Message(options), "converted");
  EXPECT_TRUE(std::filesystem::exists(dir.File("from_gguf/model.safetensors.index.json")));
  EXPECT_TRUE(HfDirectory::Open(dir.File("from_gguf")).ok());
}

TEST(ConvertTest, SaysWhatIsWrongWithTheOptions) {
  const TemporaryDirectory dir;
  const std::string gguf = dir.File("m.gguf");
  EXPECT_THAT(Message(Options("", gguf)), HasSubstr("--in is missing"));
  EXPECT_THAT(Message(Options(kModel, "")), HasSubstr("--out is missing"));
  EXPECT_THAT(Message(Options(dir.File("x"), gguf)), HasSubstr("No such file"));
  EXPECT_THAT(Message(Options("some-org/model", gguf)),
              HasSubstr("hf download some-org/model --local-dir model"));
  EXPECT_THAT(Message(Options(dir.Write("text", "hello"), dir.File("m"))),
              HasSubstr("neither those of a GGUF file nor"));
  ConvertOptions options = Options(kModel, gguf);
  options.dtype = "int8";
  EXPECT_THAT(Message(options), HasSubstr("--dtype=int8: expected auto, fp32"));
  options = Options(kModel, gguf);
  options.vocabulary = "words";
  EXPECT_THAT(Message(options), HasSubstr("--vocabulary=words: expected"));
  options.vocabulary = "files";
  EXPECT_THAT(Message(options), HasSubstr("has no tokenizer.json"));
  options = Options(kModel, gguf);
  options.max_shard_size = "1GB";
  EXPECT_THAT(Message(options), HasSubstr("is a GGUF file, which is never split"));
  options = Options(kModel, dir.File("hf"));
  options.max_shard_size = "many";
  EXPECT_THAT(Message(options), HasSubstr("--max_shard_size: 'many' is no number of bytes"));
  options = Options(kModel, absl::StrCat(kModel, "/../gpt2_tiny"));
  EXPECT_THAT(Message(options), HasSubstr("is the directory of --in"));
  options = Options(kModel, dir.File("hf"));
  options.name = "name";
  EXPECT_THAT(Message(options), HasSubstr("--name is for writing GGUF files"));
  options = Options(kModel, dir.File("hf"));
  options.lora_export = "both";
  EXPECT_THAT(Message(options), HasSubstr("--lora_export=both: expected merged or adapter"));
  options.lora_export = "adapter";
  EXPECT_THAT(Message(options), HasSubstr("is not a checkpoint of the trainer"));
  options = Options(kModel, dir.File("hf"));
  options.base = "base";
  EXPECT_THAT(Message(options), HasSubstr("--base=base is for an adapter"));
  options.in = dir.File("text");
  EXPECT_THAT(Message(options), HasSubstr("--base=base is for an adapter"));
  EXPECT_EQ(dir.List(), (std::vector<std::string>{"text"})) << "nothing was written";
  ASSERT_EQ(Message(Options(kModel, gguf)), "converted");
  options = Options(gguf, dir.File("hf"));
  options.vocabulary = "byte";
  EXPECT_THAT(Message(options), HasSubstr("--vocabulary is for writing GGUF files"));
  EXPECT_THAT(Message(Options(gguf, dir.File("other.gguf"))),
              HasSubstr("expected a name without .gguf"));
}

TEST(ConvertTest, ReplacesOnlyItsOwnFilesAndOnlyIfToldTo) {
  const TemporaryDirectory dir;
  for (const char* const name : {"m.gguf", "hf"}) {
    ConvertOptions options = Options(kModel, dir.File(name));
    ASSERT_EQ(Message(options), "converted");
    EXPECT_THAT(Message(options), HasSubstr("exists; name another path, or say --overwrite"));
    options.overwrite = true;
    EXPECT_EQ(Message(options), "converted");
  }
  ConvertOptions options = Options(kModel, dir.Write("book.gguf", "a book of words"));
  EXPECT_THAT(Message(options), HasSubstr("say --overwrite"));
  options.overwrite = true;
  EXPECT_THAT(Message(options), HasSubstr("is not a GGUF file"));
  EXPECT_EQ(ReadTestFile(options.out), "a book of words");
  dir.Write("home/thesis.tex", "x");
  options.out = dir.File("home");
  EXPECT_THAT(Message(options), HasSubstr("holds \"thesis.tex\""));
}

TEST(ConvertTest, AFilesNameIsNoDirectory) {
  const TemporaryDirectory dir;
  for (const char* const name : {"m.ggml", "m.bin", "m.safetensors", "m.GGUF"}) {
    EXPECT_THAT(Message(Options(kModel, dir.File(name))),
                HasSubstr("expected a name that ends in"));
  }
  EXPECT_TRUE(dir.List().empty());
  EXPECT_EQ(Message(Options(kModel, dir.File("Llama-3.2-1B"))), "converted");
}

TEST(ConvertTest, TheProgramConvertsAndFailsWithAMessage) {
  const TemporaryDirectory dir;
  const auto run = [&](const std::string& flags) {
    return std::system(
        absl::StrCat("tools/convert/convert ", flags, " >", dir.File("out"), " 2>", dir.File("err"))
            .c_str());
  };
  EXPECT_EQ(run(absl::StrCat("--in=", kModel, " --out=", dir.File("m.gguf"))), 0);
  EXPECT_THAT(ReadTestFile(dir.File("out")), HasSubstr("Wrote the GGUF file"));
  EXPECT_NE(run(absl::StrCat("--in=", kModel)), 0);
  EXPECT_EQ(ReadTestFile(dir.File("err")).rfind("error: --out is missing", 0), 0u);
  EXPECT_NE(run("surplus"), 0);
  EXPECT_THAT(ReadTestFile(dir.File("err")), HasSubstr("unexpected argument 'surplus'"));
}

}  // namespace
}  // namespace zeroth
