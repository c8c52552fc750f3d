// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/convert/convert.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/weights_source.h"
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

TEST(ConvertTest, TheTextModelOfAModelOfImages) {
  const TemporaryDirectory dir;
  const auto notes = Convert(Options("tests/testdata/gemma3_vision_tiny", dir.File("text")));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(notes->back(), HasSubstr("without the vision tower"));
  const auto model = HfDirectory::Open(dir.File("text"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*model->config().ModelType(), "gemma3_text");
  EXPECT_TRUE(model->left_out().empty());
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
  EXPECT_THAT(Message(options), HasSubstr("--max_shard_size: 'many' is not a number of bytes"));
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
  EXPECT_EQ(dir.List(), (std::vector<std::string>{"text"})) << "nothing was written";
  ASSERT_EQ(Message(Options(kModel, gguf)), "converted");
  options = Options(gguf, dir.File("hf"));
  options.vocabulary = "byte";
  EXPECT_THAT(Message(options), HasSubstr("--vocabulary is for writing GGUF files"));
  options = Options(gguf, dir.File("hf"));
  options.base = "base";
  EXPECT_THAT(Message(options), HasSubstr("--base=base is for an adapter"));
  EXPECT_THAT(Message(Options(gguf, dir.File("other.gguf"))),
              HasSubstr("expected a name without .gguf, and for another GGUF file a second call"));
}

// Writes PEFT's directory of an adapter of rank 3 and alpha 5 for these layers of a model, with
// random matrices.
void WriteAdapter(const std::string& path, const HfDirectory& base,
                  const std::vector<std::string>& layers, bool rslora = false) {
  const bool is_gpt2 = *base.config().GetString("model_type") == "gpt2";
  PeftAdapter adapter;
  adapter.rank = 3;
  adapter.alpha = 5;
  adapter.rslora = rslora;
  adapter.fan_in_fan_out = is_gpt2;
  adapter.base_model = base.path();
  adapter.layers = layers;
  std::vector<TensorDeclaration> tensors;
  for (const std::string& layer : layers) {
    const Shape& weight = base.weights().Find(layer + ".weight")->shape;
    tensors.push_back({PeftNameOfA(layer), DType::kFloat32, {3, weight.dim(is_gpt2 ? 0 : 1)}});
    tensors.push_back({PeftNameOfB(layer), DType::kFloat32, {weight.dim(is_gpt2 ? 1 : 0), 3}});
  }
  const auto writer = HfDirectoryWriter::Create(path, *PeftAdapterConfig(adapter), tensors,
                                                {.kind = HfDirectoryKind::kAdapter});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const TensorDeclaration& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
    for (float& value : values) value = uniform(random);
    ASSERT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

std::vector<float> ReadAll(const WeightsSource& file, const std::string& name) {
  const auto values = file.ReadAll(name, file.Find(name)->shape);
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

struct AdaptedModel {
  std::string model;
  std::vector<std::string> layers;
  bool rslora = false;
};

std::vector<AdaptedModel> AdaptedModels() {
  AdaptedModel experts = {"qwen3_moe_tiny", {"model.layers.0.self_attn.q_proj"}};
  for (int expert = 0; expert < 8; ++expert) {
    experts.layers.push_back(absl::StrCat("model.layers.1.mlp.experts.", expert, ".down_proj"));
  }
  return {
      {"gpt2_tiny",
       {"transformer.h.0.attn.c_attn", "transformer.h.0.mlp.c_proj", "transformer.h.1.mlp.c_fc"},
       /*rslora=*/true},
      {"llama_tiny",
       {"lm_head", "model.layers.0.self_attn.k_proj", "model.layers.0.self_attn.q_proj",
        "model.layers.1.mlp.down_proj", "model.layers.1.self_attn.v_proj"}},
      experts};
}

// llama.cpp adds alpha / rank * B A, of its file's alpha, to each tensor of the base model's GGUF
// file. That must be the GGUF file of the merged model, in which the rows of Llama's q_proj and
// k_proj are in another order.
TEST(ConvertTest, AGgufAdapterMakesTheMergedModelOfTheBase) {
  for (const AdaptedModel& adapted : AdaptedModels()) {
    SCOPED_TRACE(adapted.model);
    const TemporaryDirectory dir;
    const std::string base_path = absl::StrCat("tests/testdata/", adapted.model);
    const auto base_model = HfDirectory::Open(base_path);
    ASSERT_TRUE(base_model.ok()) << base_model.status();
    WriteAdapter(dir.File("peft"), *base_model, adapted.layers, adapted.rslora);
    const double alpha = adapted.rslora ? 5 * std::sqrt(3.0) : 5;
    ASSERT_EQ(Message(Options(base_path, dir.File("base.gguf"))), "converted");
    ConvertOptions options = Options(dir.File("peft"), dir.File("merged.gguf"));
    ASSERT_EQ(Message(options), "converted");
    options.out = dir.File("adapter.gguf");
    options.lora_export = "adapter";
    ASSERT_EQ(Message(options), "converted");

    const auto base = GgufFile::Open(dir.File("base.gguf"));
    const auto merged = GgufFile::Open(dir.File("merged.gguf"));
    const auto adapter = GgufFile::Open(dir.File("adapter.gguf"));
    ASSERT_TRUE(base.ok() && merged.ok() && adapter.ok()) << adapter.status();
    EXPECT_EQ(*(*adapter)->metadata().GetString("general.type"), "adapter");
    EXPECT_EQ(*(*adapter)->metadata().GetString("adapter.type"), "lora");
    EXPECT_EQ(*(*adapter)->metadata().GetDouble("adapter.lora.alpha"), static_cast<float>(alpha));
    EXPECT_EQ(*(*adapter)->metadata().GetString("general.architecture"),
              *(*base)->metadata().GetString("general.architecture"));
    size_t matrices = 0;
    for (const std::string& name : (*base)->names()) {
      std::vector<float> expected = ReadAll(**base, name);
      const SafetensorsEntry* const a_entry = (*adapter)->Find(name + ".lora_a");
      if (a_entry != nullptr) {
        matrices += 2;
        const std::vector<float> a = ReadAll(**adapter, name + ".lora_a");
        const std::vector<float> b = ReadAll(**adapter, name + ".lora_b");
        const Shape& shape = (*base)->Find(name)->shape;
        const auto columns = static_cast<size_t>(shape.dim(shape.rank() - 1));
        const auto rows = static_cast<size_t>(shape.dim(shape.rank() - 2));
        for (size_t i = 0; i < expected.size(); ++i) {
          const size_t expert = i / columns / rows;
          double sum = 0;
          for (size_t r = 0; r < 3; ++r) {
            sum += double{b[i / columns * 3 + r]} * a[(expert * 3 + r) * columns + i % columns];
          }
          expected[i] = static_cast<float>(expected[i] + alpha / 3.0 * sum);
        }
      }
      const std::vector<float> found = ReadAll(**merged, name);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6) << name;
    }
    EXPECT_EQ(matrices, (*adapter)->names().size());

    // And back, bit for bit.
    options = Options(dir.File("adapter.gguf"), dir.File("back"));
    EXPECT_THAT(Message(options), HasSubstr("--base=DIRECTORY"));
    options.base = base_path;
    options.dtype = "fp32";  // of the tensors: PEFT's configuration has no type
    ASSERT_EQ(Message(options), "converted");
    const auto first = PeftDirectory::Open(dir.File("peft"));
    const auto back = PeftDirectory::Open(dir.File("back"));
    ASSERT_TRUE(first.ok() && back.ok()) << back.status();
    EXPECT_EQ(back->adapter().rank, 3);
    EXPECT_FALSE(back->adapter().rslora);
    EXPECT_FLOAT_EQ(static_cast<float>(back->adapter().alpha), static_cast<float>(alpha));
    EXPECT_EQ(back->adapter().fan_in_fan_out, first->adapter().fan_in_fan_out);
    EXPECT_EQ(back->adapter().layers, first->adapter().layers);
    for (const std::string& name : first->weights()->names()) {
      EXPECT_EQ(ReadAll(*back->weights(), name), ReadAll(*first->weights(), name)) << name;
    }
  }
}

TEST(ConvertTest, SaysWhatIsWrongWithAGgufAdapter) {
  const TemporaryDirectory dir;
  const std::string base_path = "tests/testdata/llama_tiny";
  const auto base = HfDirectory::Open(base_path);
  ASSERT_TRUE(base.ok()) << base.status();
  WriteAdapter(dir.File("peft"), *base, {"model.layers.0.self_attn.q_proj"});
  ConvertOptions options = Options(dir.File("peft"), dir.File("a.gguf"));
  options.lora_export = "adapter";
  ASSERT_EQ(Message(options), "converted");
  ConvertOptions wrong = options;
  wrong.overwrite = true;
  wrong.dtype = "q8_0";
  EXPECT_THAT(Message(wrong), HasSubstr("--dtype=q8_0 is for whole models"));
  wrong.dtype = "auto";
  wrong.vocabulary = "byte";
  EXPECT_THAT(Message(wrong), HasSubstr("--vocabulary=byte is for whole models"));
  wrong = options;
  wrong.base = kModel;
  wrong.out = dir.File("b.gguf");
  EXPECT_THAT(Message(wrong), HasSubstr("model.layers.0.self_attn.q_proj"));
  wrong = Options(kModel, dir.File("b.gguf"));
  wrong.lora_export = "adapter";
  EXPECT_THAT(Message(wrong), HasSubstr("not a checkpoint of the trainer or an adapter of PEFT's"));
  wrong = Options(dir.File("a.gguf"), dir.File("hf"));
  wrong.base = kModel;
  EXPECT_THAT(Message(wrong),
              HasSubstr("an adapter of a \"llama\", but the base model is a \"gpt2\""));
  wrong.base = base_path;
  wrong.max_shard_size = "1GB";
  EXPECT_THAT(Message(wrong), HasSubstr("an adapter is one file"));

  // Files by others.
  const auto written = [&](const std::string& type, const std::vector<TensorDeclaration>& tensors,
                           double alpha) {
    GgufMetadata metadata;
    metadata.SetString("general.type", "adapter");
    metadata.SetString("general.architecture", "llama");
    metadata.SetString("adapter.type", type);
    metadata.SetFloat("adapter.lora.alpha", static_cast<float>(alpha));
    const auto writer = GgufWriter::Create(dir.File("other.gguf"), metadata, tensors);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const TensorDeclaration& tensor : tensors) {
      const std::vector<float> values(static_cast<size_t>(tensor.shape.numel()), 1.0f);
      EXPECT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    ConvertOptions other = Options(dir.File("other.gguf"), dir.File("other"));
    other.base = base_path;
    other.overwrite = true;
    return Message(other);
  };
  const std::string q = "blk.0.attn_q.weight";
  const DType fp32 = DType::kFloat32;
  const TensorDeclaration a = {q + ".lora_a", fp32, {2, 60}};
  const TensorDeclaration b = {q + ".lora_b", fp32, {60, 2}};
  EXPECT_EQ(written("lora", {a, b}, 4), "converted");
  EXPECT_EQ(written("lora", {a, b}, 0), "converted");
  const auto peft = PeftDirectory::Open(dir.File("other"));
  ASSERT_TRUE(peft.ok()) << peft.status();
  EXPECT_EQ(peft->adapter().alpha, 2) << "llama.cpp's scale for no alpha is 1";
  EXPECT_THAT(written("control", {a, b}, 4), HasSubstr("an adapter of type \"control\""));
  EXPECT_THAT(written("lora", {a}, 4), HasSubstr("has 1 of the two matrices"));
  EXPECT_THAT(written("lora", {a, {q + ".lora_b", fp32, {60, 3}}}, 4),
              HasSubstr("with the rank of the other tensors, 2"));
  EXPECT_THAT(written("lora", {{q, fp32, {60, 60}}}, 4), HasSubstr("is not A or B of an adapter"));
  EXPECT_THAT(written("lora", {{"blk.0.attn_norm.bias.lora_a", fp32, {2, 60}}}, 4),
              HasSubstr("is not A or B of an adapter"));
  EXPECT_THAT(written("lora", {{"blk.0.attn_z.weight.lora_a", fp32, {2, 60}}}, 4),
              HasSubstr("blk.0.attn_z.weight"));
  EXPECT_THAT(written("lora", {{a.name, fp32, {60}}}, 4), HasSubstr("expected [rank, in]"));
}

TEST(ConvertTest, AQuantisedFileSaysWhatItIsMadeOf) {
  const TemporaryDirectory dir;
  ConvertOptions options = Options(kModel, dir.File("m.gguf"));
  options.dtype = "q4_k_m";
  const auto notes = Convert(options);
  ASSERT_TRUE(notes.ok()) << notes.status();
  // No block divides rows of 60.
  EXPECT_THAT(notes->at(2), HasSubstr(" in F16; vectors are in F32."));
  EXPECT_THAT(notes->back(), HasSubstr("as in llama.cpp, they are F16."));
  // llama.cpp's spelling.
  options.dtype = "Q4_K_M";
  options.out = dir.File("same.gguf");
  const auto same = Convert(options);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->at(2), notes->at(2));
  options.dtype = "q4_k_m";
  options.out = dir.File("hf");
  EXPECT_THAT(Message(options), HasSubstr("--dtype=q4_k_m is for writing GGUF files"));
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

TEST(ConvertTest, NamesTheDirectoryThatAFileLacks) {
  const TemporaryDirectory dir;
  const std::string lacking = dir.File("nodir");
  EXPECT_EQ(Message(Options(kModel, absl::StrCat(lacking, "/m.gguf"))),
            absl::StrCat("--out=", lacking, "/m.gguf: there is no directory ", lacking,
                         "; create it, or name a file in another directory"));
  EXPECT_TRUE(dir.List().empty());
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
