// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Uses what a run has left behind: converts checkpoints and adapters to models, and continues to
// train adapters.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests
using zeroth::HfDirectory;
using zeroth::SafetensorsFile;
using zeroth::WeightsSource;

Flags Training(const std::string& family, const fs::path& out) {
  return {"--init_from=tests/testdata/" + family,
          "--data=tests/testdata/" + family + "/tokens.npy",
          "--seq_len=32",
          "--lr=1e-2",
          "--warmup_steps=0",
          "--batch_size=2",
          "--sample_tokens=0",
          "--threads_per_rank=1",
          "--steps=3",
          "--checkpoint_every=3",
          "--out=" + out.string()};
}

struct Converted {
  int exit_code = -1;
  std::string errors;
};
Converted Convert(const Flags& flags) {
  const fs::path log = Scratch() / "convert.log";
  std::string command = "tools/convert/convert";
  for (const std::string& flag : flags) absl::StrAppend(&command, " ", flag);
  const int status = std::system(absl::StrCat(command, " >/dev/null 2>", log.string()).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read(log)};
}
void ExpectConverted(const Flags& flags) {
  const Converted converted = Convert(flags);
  ASSERT_EQ(converted.exit_code, 0) << converted.errors;
}

// `tolerance`: 0 for the same bits.
void ExpectSameWeights(const WeightsSource& a, const WeightsSource& b, float tolerance) {
  ASSERT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    const auto shape = a.ShapeOf(name);
    const auto left = a.ReadAll(name, *shape);
    const auto right = b.ReadAll(name, *shape);
    ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
    for (size_t i = 0; i < left->size(); ++i) {
      ASSERT_NEAR((*left)[i], (*right)[i], tolerance) << name << " " << i;
    }
  }
}
void ExpectSameModel(const fs::path& a, const fs::path& b, float tolerance) {
  const auto left = HfDirectory::Open(a.string());
  const auto right = HfDirectory::Open(b.string());
  ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
  EXPECT_EQ(left->config().json(), right->config().json());
  ExpectSameWeights(left->weights(), right->weights(), tolerance);
}
void ExpectSameAdapter(const fs::path& a, const fs::path& b) {
  EXPECT_EQ(Read(a / "adapter_config.json"), Read(b / "adapter_config.json"));
  const auto left = SafetensorsFile::Open((a / "adapter_model.safetensors").string());
  const auto right = SafetensorsFile::Open((b / "adapter_model.safetensors").string());
  ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
  ExpectSameWeights(**left, **right, 0);
}

TEST(TrainConvertTest, ACheckpointBecomesTheModelThatTheRunExports) {
  for (const char* family : {"gpt2_tiny", "llama_tiny"}) {
    SCOPED_TRACE(family);
    const fs::path model = Scratch() / absl::StrCat(family, "_model");
    fs::copy(absl::StrCat("tests/testdata/", family), model, fs::copy_options::recursive);
    Write(model / "special_tokens_map.json", "{\"a\": 1}");
    const fs::path out = Scratch() / family;
    const Outcome run = RunTrainer(With(Training(family, out), {"--init_from=" + model.string()}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    // Neither the model nor the flags are needed.
    fs::remove_all(model);
    const std::string checkpoint = "--in=" + (out / "step-00000003").string();
    ExpectConverted({checkpoint, "--out=" + (out / "hf").string()});
    ExpectSameModel(out / "hf", out / "final", 0);
    EXPECT_EQ(Read(out / "hf/special_tokens_map.json"), "{\"a\": 1}");
    ExpectConverted({checkpoint, "--out=" + (out / "a.gguf").string(), "--name=m"});
    ExpectConverted(
        {"--in=" + (out / "final").string(), "--out=" + (out / "b.gguf").string(), "--name=m"});
    EXPECT_TRUE(Read(out / "a.gguf") == Read(out / "b.gguf"));
    EXPECT_NE(Convert({checkpoint, "--lora_export=adapter", "--out=" + (out / "c").string()})
                  .errors.find("has no adapters"),
              std::string::npos);
    // Carried files are checked, too.
    std::string config = Read(out / "step-00000003/config.json");
    config[config.find("0.")] = '1';
    Write(out / "step-00000003/config.json", config);
    const Converted damaged = Convert({checkpoint, "--out=" + (out / "d").string()});
    EXPECT_EQ(damaged.exit_code, 1);
    EXPECT_NE(damaged.errors.find("config.json"), std::string::npos) << damaged.errors;
    EXPECT_FALSE(fs::exists(out / "d"));
  }
}

// Errors of tools/convert are reported before the training.
TEST(TrainConvertTest, AVocabularyThatGgufCannotSayIsNotedAtTheStart) {
  const fs::path model = Scratch() / "model";
  fs::copy("tests/testdata/llama_tiny", model, fs::copy_options::recursive);
  nlohmann::json vocab;
  for (const std::string& token : zeroth::ByteVocabulary().tokens) vocab[token] = vocab.size();
  nlohmann::json tokenizer = {
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}},
      {"added_tokens", {{{"id", 256}, {"content", "<|endoftext|>"}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}}};
  const auto notes = [&](const char* name) {
    Write(model / "tokenizer.json", tokenizer.dump());
    const Outcome run = RunTrainer(
        With(Training("llama_tiny", Scratch() / name), {"--init_from=" + model.string()}));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.output;
  };
  const std::string note = "note      no GGUF file can be made of the result: ";
  EXPECT_EQ(notes("plain").find(note), std::string::npos);
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "!"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"!", {{"ids", {vocab["!"]}}}}}}};
  Write(model / "tokenizer_config.json", R"({"bos_token": "<|endoftext|>"})");
  const std::string said = notes("other");
  EXPECT_NE(said.find(note), std::string::npos) << said;
  EXPECT_NE(said.find("\"post_processor\" of tokenizer.json puts 33 (\"!\") before a text"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("convert with --vocabulary=none"), std::string::npos) << said;
}

// final/ has the type of the base, unless a flag says another, and adapters are in fp32.
TEST(TrainConvertTest, AModelIsExportedInTheTypeOfItsBase) {
  const std::string base = (Scratch() / "bf16_base").string();
  ExpectConverted({"--in=tests/testdata/llama_tiny", "--dtype=bf16", "--out=" + base});
  const auto type_of = [](const fs::path& file) {
    const std::string header = Read(file).substr(0, 4096);
    return std::pair(absl::StrContains(header, "\"BF16\""), absl::StrContains(header, "\"F32\""));
  };
  const std::pair bf16(true, false), fp32(false, true);
  const auto train = [&](const std::string& name, const Flags& more) {
    const fs::path out = Scratch() / name;
    const Outcome run = RunTrainer(With(Training("llama_tiny", out), more));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(absl::StrContains(run.output, "note      final/ will be in bf16"),
              name == "plain" || name == "adapted");
    return out;
  };
  const std::string from_bf16 = "--init_from=" + base;
  EXPECT_EQ(type_of(train("plain", {from_bf16}) / "final/model.safetensors"), bf16);
  EXPECT_EQ(type_of(train("fp32", {from_bf16, "--export_dtype=fp32"}) / "final/model.safetensors"),
            fp32);
  EXPECT_EQ(type_of(train("base_fp32", {}) / "final/model.safetensors"), fp32);
  const fs::path adapted = train("adapted", {from_bf16, "--lora_rank=2", "--lora_export=both"});
  EXPECT_EQ(type_of(adapted / "final/model.safetensors"), bf16);
  EXPECT_EQ(type_of(adapted / "final_adapter/adapter_model.safetensors"), fp32);
  const fs::path alone = train("alone", {from_bf16, "--lora_rank=2", "--lora_export=adapter"});
  EXPECT_FALSE(fs::exists(alone / "final"));
}

TEST(TrainConvertTest, SoAreThoseWithMagnitudes) {
  for (const char* family : {"gpt2_tiny", "llama_tiny"}) {
    SCOPED_TRACE(family);
    const std::string base = absl::StrCat("tests/testdata/", family);
    const fs::path out = Scratch() / absl::StrCat(family, "_dora");
    const Flags adapters = {"--lora_rank=3", "--lora_alpha=5", "--lora_dora", "--lora_export=both"};
    const Outcome run = RunTrainer(With(Training(family, out), adapters));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_NE(run.output.find("DoRA of rank 3, alpha 5"), std::string::npos) << run.output;
    const std::string checkpoint = "--in=" + (out / "step-00000003").string();
    ExpectConverted({checkpoint, "--out=" + (out / "merged").string()});
    ExpectSameModel(out / "merged", out / "final", 0);
    ExpectConverted({checkpoint, "--lora_export=adapter", "--out=" + (out / "alone").string()});
    ExpectSameAdapter(out / "alone", out / "final_adapter");
    const std::string adapter = "--in=" + (out / "final_adapter").string();
    ExpectConverted({adapter, "--base=" + base, "--out=" + (out / "applied").string()});
    const auto applied = HfDirectory::Open((out / "applied").string());
    const auto exported = HfDirectory::Open((out / "final").string());
    ASSERT_TRUE(applied.ok() && exported.ok());
    ExpectSameWeights(applied->weights(), exported->weights(), 0);
    const Converted refused = Convert({adapter, "--lora_export=adapter", "--base=" + base,
                                       "--out=" + (out / "adapter.gguf").string()});
    EXPECT_NE(refused.errors.find("write the merged model instead"), std::string::npos)
        << refused.errors;
    const fs::path same = Scratch() / absl::StrCat(family, "_same_dora");
    const Outcome begun = RunTrainer(With(
        Training(family, same), {"--init_adapter=" + (out / "final_adapter").string(),
                                 "--init_from=", "--lora_export=both", "--lr=0", "--min_lr=0"}));
    ASSERT_EQ(begun.exit_code, 0) << begun.output;
    ExpectSameAdapter(same / "final_adapter", out / "final_adapter");
    EXPECT_TRUE(Read(same / "final/model.safetensors") == Read(out / "final/model.safetensors"));
  }
}

TEST(TrainConvertTest, AdaptersAreMergedWrittenAloneAndGoOn) {
  for (const char* family : {"gpt2_tiny", "llama_tiny", "qwen3_moe_tiny"}) {
    SCOPED_TRACE(family);
    const std::string base = absl::StrCat("tests/testdata/", family);
    const fs::path out = Scratch() / family;
    Flags adapters = {"--lora_rank=3", "--lora_alpha=5", "--lora_export=both"};
    const bool has_more = std::string(family) == "llama_tiny";
    if (has_more) {
      adapters = With(adapters, {"--lora_rslora", "--lora_dropout=0.1",
                                 "--lora_modules_to_save=embed_tokens,lm_head"});
    }
    const Outcome run = RunTrainer(With(Training(family, out), adapters));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const std::string checkpoint = "--in=" + (out / "step-00000003").string();
    ExpectConverted({checkpoint, "--out=" + (out / "merged").string()});
    ExpectSameModel(out / "merged", out / "final", 0);
    ExpectConverted({checkpoint, "--lora_export=adapter", "--out=" + (out / "alone").string()});
    ExpectSameAdapter(out / "alone", out / "final_adapter");
    // An adapter and the base that it names, or that is named.
    const std::string adapter = "--in=" + (out / "final_adapter").string();
    ExpectConverted({adapter, "--out=" + (out / "applied").string()});
    ExpectConverted({adapter, "--base=" + base, "--out=" + (out / "again").string()});
    EXPECT_TRUE(Read(out / "applied/model.safetensors") == Read(out / "again/model.safetensors"));
    const auto applied = HfDirectory::Open((out / "applied").string());
    const auto exported = HfDirectory::Open((out / "final").string());
    ASSERT_TRUE(applied.ok() && exported.ok());
    ExpectSameWeights(applied->weights(), exported->weights(), 0);
    ExpectConverted({adapter, "--out=" + (out / "applied.gguf").string()});
    EXPECT_NE(
        Convert({adapter, "--base=" + (out / "none").string(), "--out=" + (out / "x").string()})
            .errors.find("--base"),
        std::string::npos);

    // Continued: it begins as it was, from the base that it names.
    const Flags go_on = {"--init_adapter=" + (out / "final_adapter").string(),
                         "--init_from=", "--lora_export=both"};
    const fs::path same = Scratch() / absl::StrCat(family, "_same");
    const Outcome begun =
        RunTrainer(With(With(Training(family, same), go_on), {"--lr=0", "--min_lr=0"}));
    ASSERT_EQ(begun.exit_code, 0) << begun.output;
    EXPECT_NE(begun.output.find("LoRA of rank 3, alpha 5"), std::string::npos) << begun.output;
    if (has_more) {
      for (const char* said : {"rsLoRA of rank", ", and embed_tokens,lm_head in full: "}) {
        EXPECT_NE(begun.output.find(said), std::string::npos) << begun.output;
      }
      const Converted refused = Convert({adapter, "--lora_export=adapter", "--base=" + base,
                                         "--out=" + (out / "adapter.gguf").string()});
      EXPECT_NE(refused.errors.find("is stored in full"), std::string::npos) << refused.errors;
    }
    ExpectSameAdapter(same / "final_adapter", out / "final_adapter");
    EXPECT_TRUE(Read(same / "final/model.safetensors") == Read(out / "final/model.safetensors"));
    const Outcome other =
        RunTrainer(With(With(Training(family, Scratch() / absl::StrCat(family, "_other")), go_on),
                        {"--lora_rank=4"}));
    EXPECT_EQ(other.exit_code, 1);
    EXPECT_NE(other.errors.find("--lora_rank=4, but that of --init_adapter is 3"),
              std::string::npos)
        << other.errors;
  }
}

TEST(TrainConvertTest, AnAdapterOfAnotherModelIsRefused) {
  const fs::path out = Scratch() / "out";
  const Outcome run =
      RunTrainer(With(Training("gpt2_tiny", out),
                      {"--lora_rank=2", "--lora_targets=c_attn", "--lora_export=adapter"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::string adapter = (out / "final_adapter").string();
  const Outcome other =
      RunTrainer(With(Training("llama_tiny", Scratch() / "x"), {"--init_adapter=" + adapter}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.errors.find("c_attn"), std::string::npos) << other.errors;
  const Converted merged = Convert({"--in=" + adapter, "--base=tests/testdata/llama_tiny",
                                    "--out=" + (Scratch() / "y").string()});
  EXPECT_EQ(merged.exit_code, 1);
  EXPECT_NE(merged.errors.find("c_attn"), std::string::npos) << merged.errors;
  // More layers than it has.
  const Outcome more =
      RunTrainer(With(Training("gpt2_tiny", Scratch() / "z"),
                      {"--init_adapter=" + adapter, "--lora_targets=c_attn,c_fc"}));
  EXPECT_EQ(more.exit_code, 1);
  EXPECT_NE(more.errors.find("only the model: transformer.h.0.mlp.c_fc"), std::string::npos)
      << more.errors;
}

// gpt-oss as transformers stores it, with the experts of a layer in one tensor.
TEST(TrainConvertTest, StackedExpertsAreTrainedAsSeparateOnes) {
  const fs::path stacked = Scratch() / "stacked";
  const fs::path gguf = Scratch() / "model.gguf";
  ExpectConverted({"--in=tests/testdata/gpt_oss_tiny", "--out=" + stacked.string()});
  ExpectConverted({"--in=" + stacked.string(), "--out=" + gguf.string()});
  EXPECT_TRUE(absl::StrContains(Read(stacked / "model.safetensors").substr(0, 8192),
                                "model.layers.2.mlp.experts.gate_up_proj\""));
  const fs::path separate = Scratch() / "separate_run";
  const Outcome first = RunTrainer(Training("gpt_oss_tiny", separate));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const std::string expected = Read(separate / "final/model.safetensors");
  for (const fs::path& model : {stacked, gguf}) {
    const fs::path out = Scratch() / absl::StrCat(model.stem().string(), "_run");
    const Outcome run =
        RunTrainer(With(Training("gpt_oss_tiny", out), {"--init_from=" + model.string()}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_TRUE(Read(out / "final/model.safetensors") == expected) << model;
    ExpectConverted({"--in=" + (out / "step-00000003").string(), "--out=" + (out / "hf").string()});
    ExpectSameModel(out / "hf", out / "final", 0);
    EXPECT_TRUE(Read(out / "hf/model.safetensors") == expected) << model;
  }
}

// The scales are from the smallest to the largest, so that no step could be made.
TEST(TrainConvertTest, Mxfp4IsReadAsItsDenseForm) {
  const fs::path tokens = Scratch() / "tokens.npy";
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 17), }";
  header.resize(118, ' ');
  Write(tokens,
        std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + std::string(4 * 17 * 4, '\0'));
  const auto exported = [&](const std::string& form) {
    const fs::path out = Scratch() / form;
    const Outcome run = RunTrainer({"--init_from=tests/testdata/gpt_oss_experts/" + form,
                                    "--data=" + tokens.string(), "--seq_len=16", "--batch_size=1",
                                    "--steps=0", "--sample_tokens=0", "--export_dtype=fp32",
                                    "--world_size=2", "--out=" + out.string()});
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_FALSE(absl::StrContains(Read(out / "final/config.json"), "quantization_config"));
    return out / "final/model.safetensors";
  };
  const fs::path dense = exported("dense");
  EXPECT_TRUE(Read(exported("mxfp4")) == Read(dense));
  // The zeros of ggml's MXFP4 have no sign.
  const auto expected = SafetensorsFile::Open(dense.string());
  const auto gguf = SafetensorsFile::Open(exported("gguf/model.gguf").string());
  ASSERT_TRUE(expected.ok() && gguf.ok()) << expected.status() << gguf.status();
  ASSERT_EQ((*gguf)->names(), (*expected)->names());
  for (const std::string& name : (*expected)->names()) {
    const auto shape = (*expected)->ShapeOf(name);
    EXPECT_EQ(*(*gguf)->ReadAll(name, *shape), *(*expected)->ReadAll(name, *shape)) << name;
  }
}

// PEFT has no layer for an adapter of an expert that transformers stacks.
TEST(TrainConvertTest, AdaptersOfStackedExpertsAreMergedOrRefused) {
  const Flags adapters = {"--lora_rank=2"};
  const fs::path out = Scratch() / "out";
  const Outcome refused =
      RunTrainer(With(With(Training("gpt_oss_tiny", out), adapters), {"--lora_export=both"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("write the merged model instead (--lora_export=merged)"),
            std::string::npos)
      << refused.errors;
  EXPECT_FALSE(fs::exists(out / "final"));
  const Outcome merged = RunTrainer(With(Training("gpt_oss_tiny", out), adapters));
  ASSERT_EQ(merged.exit_code, 0) << merged.output;
  const std::string checkpoint = "--in=" + (out / "step-00000003").string();
  ExpectConverted({checkpoint, "--out=" + (out / "hf").string()});
  ExpectSameModel(out / "hf", out / "final", 0);
  const Converted alone =
      Convert({checkpoint, "--lora_export=adapter", "--out=" + (out / "alone").string()});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_NE(alone.errors.find("transformers stacks the experts"), std::string::npos)
      << alone.errors;
  const fs::path of_others = Scratch() / "of_others";
  const Outcome others = RunTrainer(With(With(Training("gpt_oss_tiny", of_others), adapters),
                                         {"--lora_export=both", "--lora_targets=all_but_experts"}));
  ASSERT_EQ(others.exit_code, 0) << others.output;
  ExpectConverted({"--in=" + (of_others / "final_adapter").string(),
                   "--out=" + (of_others / "applied").string()});
  EXPECT_TRUE(Read(of_others / "applied/model.safetensors") ==
              Read(of_others / "final/model.safetensors"));
}

TEST(TrainConvertTest, ExportsNameTheirTokens) {
  for (const char* preset : {"gpt2_nano", "llama_tiny"}) {
    const fs::path out = Scratch() / preset;
    const fs::path text = Scratch() / "text";
    Write(text, std::string(2000, 'a'));
    const Outcome run =
        RunTrainer({absl::StrCat("--model=", preset), "--data=" + text.string(), "--seq_len=16",
                    "--batch_size=1", "--steps=1", "--sample_tokens=0", "--out=" + out.string()});
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const auto config = nlohmann::json::parse(Read(out / "final/config.json"));
    EXPECT_EQ(config.at("bos_token_id"), 256);
    EXPECT_EQ(config.at("eos_token_id"), 256);
  }
}

}  // namespace
