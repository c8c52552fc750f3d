// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// --base_dtype: what is exported, resumed at other ranks, and refused.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_blocks.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

Flags Common(const fs::path& out, int steps) {
  return {"--data=tests/testdata/llama_tiny/tokens.npy",
          "--seq_len=32",
          "--lr=1e-2",
          "--min_lr=0",
          "--world_size=2",
          "--deterministic_batch=8",
          "--sample_tokens=0",
          "--threads_per_rank=1",
          "--steps=" + std::to_string(steps),
          "--out=" + out.string()};
}

constexpr int kExperts = 4;

// A small Llama, or a Qwen3 of experts, whose widths are multiples of 64, or of 256.
fs::path MakeBase(int hidden_size = 128, const std::string& family = "llama") {
  nlohmann::json config = {{"model_type", family},        {"vocab_size", 256},
                           {"hidden_size", hidden_size},  {"intermediate_size", 256},
                           {"num_hidden_layers", 2},      {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},    {"max_position_embeddings", 64},
                           {"rms_norm_eps", 1e-5},        {"rope_theta", 10000.0},
                           {"tie_word_embeddings", false}};
  if (family == "qwen3_moe") {
    config.update({{"num_experts", kExperts},
                   {"num_experts_per_tok", 2},
                   {"norm_topk_prob", true},
                   {"moe_intermediate_size", 256},
                   {"head_dim", hidden_size / 4}});
  }
  const std::string name = family + "_" + std::to_string(hidden_size);
  const fs::path file = Scratch() / (name + ".json");
  Write(file, config.dump());
  const fs::path out = Scratch() / name;
  if (fs::exists(out / "final")) return out / "final";
  const Outcome run = RunTrainer(With(Common(out, 2), {"--model=" + file.string()}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return out / "final";
}

Flags Packed(const fs::path& base, const fs::path& out, const std::string& dtype, int steps) {
  return With(Common(out, steps), {"--init_from=" + base.string(), "--lora_rank=4",
                                   "--base_dtype=" + dtype, "--lora_export=both"});
}

void ExpectExportOfRestoredWeights(const fs::path& base, int weights) {
  const auto stored = zeroth::HfDirectory::Open(base.string());
  ASSERT_TRUE(stored.ok()) << stored.status();
  for (const auto format : {zeroth::PackedFormat::kNf4, zeroth::PackedFormat::kInt8}) {
    const std::string name(zeroth::PackedFormatName(format));
    SCOPED_TRACE(name);
    const fs::path out = base.parent_path() / name;
    // B stays zero.
    const Outcome run = RunTrainer(With(Packed(base, out, name, 1), {"--lr=0"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_TRUE(absl::StrContains(run.output, "of the frozen weights are kept as " + name))
        << run.output;
    // Packed weights count as weights, not as bytes, also among those of one of the two ranks.
    const nlohmann::json summary = Metrics(out).back()["summary"];
    EXPECT_NEAR(summary["parameters_local"].get<double>(), summary["parameters"].get<double>() / 2,
                summary["parameters"].get<double>() * 0.02);
    EXPECT_NEAR(summary["sharding_ratio"].get<double>(), 0.5, 0.02);
    const auto merged = zeroth::HfDirectory::Open((out / "final").string());
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->weights().names(), stored->weights().names());
    int packed = 0;
    for (const std::string& weight : stored->weights().names()) {
      const auto shape = stored->weights().ShapeOf(weight);
      auto expected = stored->weights().ReadAll(weight, *shape);
      const auto actual = merged->weights().ReadAll(weight, *shape);
      ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
      if (absl::EndsWith(weight, "_proj.weight")) {
        ++packed;
        const zeroth::PackedShape of = {format, shape->dim(0), shape->dim(1)};
        const auto bytes = zeroth::PackMatrix(of, [&](int64_t begin, absl::Span<float> values) {
          std::copy_n(expected->begin() + begin, values.size(), values.begin());
          return absl::OkStatus();
        });
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        expected = zeroth::UnpackMatrix(of, bytes->codes, bytes->scales);
      }
      EXPECT_TRUE(*actual == *expected) << weight;
    }
    EXPECT_EQ(packed, weights);
  }
}

TEST(TrainPackedBaseTest, AnExportHasTheRestoredWeights) {
  ExpectExportOfRestoredWeights(MakeBase(), 2 * 7);
}

TEST(TrainPackedBaseTest, AnExportHasTheRestoredWeightsOfExperts) {
  ExpectExportOfRestoredWeights(MakeBase(128, "qwen3_moe"), 2 * (4 + 3 * kExperts));
}

// The GGUF file of a directory.
fs::path Quantised(const fs::path& base, zeroth::GgufMix mix) {
  const auto stored = zeroth::HfDirectory::Open(base.string());
  EXPECT_TRUE(stored.ok()) << stored.status();
  const fs::path file =
      base.parent_path() / (mix == zeroth::GgufMix::kQ8_0 ? "q8_0.gguf" : "q4_k_m.gguf");
  zeroth::GgufExportOptions options;
  options.mix = mix;
  options.vocabulary = zeroth::GgufVocabularySource::kNone;
  const absl::Status written = zeroth::ConvertHfToGguf(*stored, file.string(), options);
  EXPECT_TRUE(written.ok()) << written;
  return file;
}

zeroth::GgufBlock BlockOf(zeroth::PackedFormat format) {
  if (format == zeroth::PackedFormat::kQ8_0) return zeroth::GgufBlock::kQ8_0;
  if (format == zeroth::PackedFormat::kQ5_0) return zeroth::GgufBlock::kQ5_0;
  return format == zeroth::PackedFormat::kQ4_K ? zeroth::GgufBlock::kQ4_K
                                               : zeroth::GgufBlock::kQ6_K;
}

// Expects the directory's weights, quantised row by row and dequantised, since a file has the rows
// of queries and keys in another order.
TEST(TrainPackedBaseTest, AnExportOfAGgufFileHasItsDequantisedWeights) {
  struct Case {
    int hidden_size;
    zeroth::GgufMix mix;
    std::string formats;
    std::string family = "llama";
  };
  // Blocks of 256 do not divide rows of 96.
  for (const auto& [hidden_size, mix, formats, family] :
       {Case{256, zeroth::GgufMix::kQ8_0, "q8_0"},
        Case{256, zeroth::GgufMix::kQ4_K_M, "q4_k, q6_k"},
        Case{256, zeroth::GgufMix::kQ4_K_M, "q4_k, q6_k", "qwen3_moe"},
        Case{96, zeroth::GgufMix::kQ4_K_M, "q4_k, q5_0, q6_k, q8_0"}}) {
    SCOPED_TRACE(family + " " + formats);
    const fs::path base = MakeBase(hidden_size, family);
    const auto stored = zeroth::HfDirectory::Open(base.string());
    ASSERT_TRUE(stored.ok()) << stored.status();
    const fs::path file = Quantised(base, mix);
    const fs::path out = base.parent_path() / ("gguf_" + formats);
    // B stays zero.
    const Outcome run = RunTrainer(With(Packed(file, out, "gguf", 1), {"--lr=0"}));
    ASSERT_EQ(run.exit_code, 0) << run.output << run.errors;
    EXPECT_TRUE(
        absl::StrContains(run.output, "of the frozen weights are kept as " + formats + ", in"))
        << run.output;
    const auto merged = zeroth::HfDirectory::Open((out / "final").string());
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->weights().names(), stored->weights().names());
    const auto model = zeroth::OpenGgufModel(file.string());
    ASSERT_TRUE(model.ok()) << model.status();
    const auto& blocks = dynamic_cast<const zeroth::GgufWeights&>(model->weights()).blocks();
    EXPECT_EQ(blocks.size(), 2u * (family == "llama" ? 7 : 4 + 3 * kExperts) + 2u);
    for (const std::string& weight : stored->weights().names()) {
      const auto shape = stored->weights().ShapeOf(weight);
      auto expected = stored->weights().ReadAll(weight, *shape);
      const auto actual = merged->weights().ReadAll(weight, *shape);
      ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
      const auto format = blocks.find(weight);
      if (format != blocks.end()) {
        const zeroth::PackedShape of = {format->second, shape->dim(0), shape->dim(1)};
        std::vector<uint8_t> bytes(static_cast<size_t>(of.rows * of.CodeBytes(of.cols)));
        zeroth::QuantizeBlocks(BlockOf(of.format), *expected, absl::MakeSpan(bytes));
        expected = zeroth::UnpackMatrix(of, bytes, {});
      }
      EXPECT_TRUE(*actual == *expected) << weight;
    }
  }
}

// An adapter names the file that it was trained on and continues from it; the file is also loaded
// with weights in full.
TEST(TrainPackedBaseTest, AGgufFileIsAModel) {
  const fs::path file = Quantised(MakeBase(256), zeroth::GgufMix::kQ4_K_M);
  const fs::path out = Scratch() / "first";
  const Outcome first = RunTrainer(With(Packed(file, out, "gguf", 2), {"--lora_export=adapter"}));
  ASSERT_EQ(first.exit_code, 0) << first.output << first.errors;
  const Outcome more =
      RunTrainer(With(Common(Scratch() / "more", 1),
                      {"--init_adapter=" + (out / "final_adapter").string(), "--base_dtype=gguf"}));
  EXPECT_EQ(more.exit_code, 0) << more.output << more.errors;
  const Outcome full =
      RunTrainer(With(Common(Scratch() / "full", 1), {"--init_from=" + file.string()}));
  EXPECT_EQ(full.exit_code, 0) << full.output << full.errors;
}

// Training with the file's vocabulary and template, on text and on conversations, has the bits of
// training with the directory that the file was made from.
TEST(TrainPackedBaseTest, AGgufFileHasItsTokenizer) {
  const fs::path config = Scratch() / "words.json";
  Write(config, nlohmann::json{{"model_type", "llama"},
                               {"vocab_size", 960},
                               {"hidden_size", 64},
                               {"intermediate_size", 64},
                               {"num_hidden_layers", 1},
                               {"num_attention_heads", 4},
                               {"max_position_embeddings", 64},
                               {"rms_norm_eps", 1e-5}}
                    .dump());
  const fs::path made = Scratch() / "words";
  const Outcome first = RunTrainer(With(Common(made, 1), {"--model=" + config.string()}));
  ASSERT_EQ(first.exit_code, 0) << first.output << first.errors;
  const fs::path base = made / "final";
  const fs::path text = Scratch() / "words.txt";
  std::string words;
  for (int i = 0; i < 200; ++i) words += "the " + std::to_string(i) + " words of a text\n";
  Write(text, words);
  const fs::path chats = Scratch() / "chats.jsonl";
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += nlohmann::json{{"messages",
                             {{{"role", "user"}, {"content", "say " + std::to_string(i)}},
                              {{"role", "assistant"}, {"content", "the words"}}}}}
                 .dump() +
             "\n";
  }
  Write(chats, lines);
  const std::string chat_template =
      "{{ bos_token }}{% for m in messages %}{{ '[' + m['role'] + ']' }}{{ m['content'] + "
      "eos_token "
      "}}{% endfor %}";
  for (const std::string kind : {"llama3", "sentencepiece"}) {
    SCOPED_TRACE(kind);
    const bool is_json = kind == "llama3";
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) fs::remove(base / name);
    const std::string name = is_json ? "tokenizer.json" : "tokenizer.model";
    fs::copy_file(fs::path("tests/testdata/tokenizers") / kind / name, base / name);
    Write(base / "tokenizer_config.json",
          nlohmann::json{{"bos_token", is_json ? "<|begin_of_text|>" : "<s>"},
                         {"eos_token", is_json ? "<|end_of_text|>" : "</s>"},
                         {"chat_template", chat_template}}
              .dump());
    const fs::path file = Scratch() / (kind + ".gguf");
    const auto stored = zeroth::HfDirectory::Open(base.string());
    ASSERT_TRUE(stored.ok()) << stored.status();
    const absl::Status written = zeroth::ConvertHfToGguf(*stored, file.string());
    ASSERT_TRUE(written.ok()) << written;
    for (const fs::path& data : {text, chats}) {
      SCOPED_TRACE(data);
      std::vector<std::string> weights;
      for (const fs::path& from : {base, file}) {
        const fs::path out = Scratch() / "out" / kind / data.stem() / from.extension();
        const Outcome run = RunTrainer(
            With(Common(out, 2), {"--init_from=" + from.string(), "--data=" + data.string()}));
        ASSERT_EQ(run.exit_code, 0) << run.output << run.errors;
        weights.push_back(Read(out / "final/model.safetensors"));
        EXPECT_TRUE(fs::exists(out / "final" / name));
        EXPECT_TRUE(absl::StrContains(Read(out / "final/tokenizer_config.json"), "m['role']"));
      }
      EXPECT_TRUE(weights[0] == weights[1]);
    }
    // The flag wins.
    const fs::path bytes = Scratch() / "bytes" / kind;
    const Outcome run =
        RunTrainer(With(Common(bytes, 1), {"--init_from=" + file.string(), "--tokenizer=byte",
                                           "--data=" + text.string()}));
    ASSERT_EQ(run.exit_code, 0) << run.output << run.errors;
    EXPECT_TRUE(absl::StrContains(run.output, "tokenizer byte")) << run.output;
  }
  // A vocabulary that cannot be read is an error only where text needs it.
  const auto stored = zeroth::HfDirectory::Open(base.string());
  const fs::path file = Scratch() / "none.gguf";
  zeroth::GgufExportOptions none;
  none.vocabulary = zeroth::GgufVocabularySource::kNone;
  ASSERT_TRUE(zeroth::ConvertHfToGguf(*stored, file.string(), none).ok());
  const Outcome refused = RunTrainer(With(
      Common(Scratch() / "none", 1), {"--init_from=" + file.string(), "--data=" + text.string()}));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(refused.errors, "which has no tokenizer files")) << refused.errors;
}

// Value heads have another order in the file, and a matrix's columns cannot be reordered as blocks.
TEST(TrainPackedBaseTest, AQwen35IsTrainedFromAGgufFile) {
  const fs::path base = "tests/testdata/qwen3_5_gguf";
  const auto stored = zeroth::HfDirectory::Open(base.string());
  ASSERT_TRUE(stored.ok()) << stored.status();
  const auto written = [&](const char* name, std::optional<zeroth::GgufMix> mix) {
    zeroth::GgufExportOptions options;
    options.mix = mix;
    options.vocabulary = zeroth::GgufVocabularySource::kNone;
    const fs::path file = Scratch() / name;
    const absl::Status status = zeroth::ConvertHfToGguf(*stored, file.string(), options);
    EXPECT_TRUE(status.ok()) << status;
    return file;
  };
  std::vector<double> losses;
  for (const fs::path& from : {base, written("qwen35.gguf", std::nullopt)}) {
    const fs::path out = Scratch() / "qwen35" / std::to_string(losses.size());
    const Outcome run = RunTrainer(With(Common(out, 2), {"--init_from=" + from.string()}));
    ASSERT_EQ(run.exit_code, 0) << run.output << run.errors;
    losses.push_back(Metrics(out)[1]["loss"].get<double>());
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
  const fs::path file = written("qwen35_q8_0.gguf", zeroth::GgufMix::kQ8_0);
  const fs::path out = Scratch() / "qwen35_packed";
  // B stays zero.
  const Outcome run = RunTrainer(With(Packed(file, out, "gguf", 1), {"--lr=0"}));
  ASSERT_EQ(run.exit_code, 0) << run.output << run.errors;
  EXPECT_TRUE(absl::StrContains(run.output, "of the frozen weights are kept as q8_0"))
      << run.output;
  const auto expected = zeroth::OpenGgufModel(file.string());
  const auto merged = zeroth::HfDirectory::Open((out / "final").string());
  ASSERT_TRUE(expected.ok() && merged.ok()) << expected.status() << merged.status();
  ASSERT_EQ(merged->weights().names(), expected->weights().names());
  for (const std::string& weight : merged->weights().names()) {
    const auto shape = merged->weights().ShapeOf(weight);
    EXPECT_TRUE(*merged->weights().ReadAll(weight, *shape) ==
                *expected->weights().ReadAll(weight, *shape))
        << weight;
  }
}

void ExpectResumesAtOtherRanks(const std::string& family, const std::vector<std::string>& dtypes) {
  for (const std::string& dtype : dtypes) {
    SCOPED_TRACE(dtype);
    const fs::path base = dtype == "gguf"
                              ? Quantised(MakeBase(256, family), zeroth::GgufMix::kQ4_K_M)
                              : MakeBase(128, family);
    const fs::path whole = Scratch() / (dtype + "_whole");
    const Outcome undisturbed = RunTrainer(Packed(base, whole, dtype, 6));
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
    const std::vector<Flags> others = {
        {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"},
        {"--world_size=1", "--strategy=no_shard"}};
    for (const Flags& other : others) {
      SCOPED_TRACE(other.front());
      const fs::path out = Scratch() / (dtype + other.front());
      const Flags saving = With(Packed(base, out, dtype, 6), {"--checkpoint_every=3"});
      const Outcome first = RunTrainer(saving);
      ASSERT_EQ(first.exit_code, 0) << first.output;
      // Without the packed weights, which are restored only when the run ends.
      const Flags adapter = {"--in=" + (out / "step-00000006").string(), "--lora_export=adapter",
                             "--out=" + (out / "adapter.gguf").string()};
      const fs::path log = out / "convert_log";
      EXPECT_EQ(Wait(Start(adapter, log, "", {}, "tools/convert/convert")), 0) << Logs(log);
      fs::remove_all(out / "step-00000006");
      fs::remove_all(out / "final");
      const Outcome rest = RunTrainer(With(With(saving, {"--resume=auto"}), other));
      ASSERT_EQ(rest.exit_code, 0) << rest.output;
      EXPECT_TRUE(absl::StrContains(rest.output, "after step 3")) << rest.output;
      EXPECT_EQ(StepFacts(out), StepFacts(whole));
      for (const char* name :
           {"final/model.safetensors", "final_adapter/adapter_model.safetensors"}) {
        EXPECT_TRUE(Read(out / name) == Read(whole / name)) << name << " has other bits";
      }
    }
  }
}

TEST(TrainPackedBaseTest, ResumesAtOtherRanksWithTheSameBits) {
  ExpectResumesAtOtherRanks("llama", {"nf4", "int8", "gguf"});
}

TEST(TrainPackedBaseTest, ResumesExpertsAtOtherRanksWithTheSameBits) {
  ExpectResumesAtOtherRanks("qwen3_moe", {"nf4", "gguf"});
}

void ExpectThatTensorRanksShare(const fs::path& base, const std::string& dtype) {
  const fs::path one = Scratch() / "one";
  const fs::path two = Scratch() / "two";
  const Flags pieces = {"--deterministic_tensor=2"};
  const Outcome whole = RunTrainer(With(Packed(base, one, dtype, 3), pieces));
  const Outcome divided = RunTrainer(
      With(With(Packed(base, two, dtype, 3), pieces), {"--tensor_parallel=2", "--world_size=4"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  ASSERT_EQ(divided.exit_code, 0) << divided.output;
  EXPECT_EQ(StepFacts(two), StepFacts(one));
  EXPECT_TRUE(Read(two / "final/model.safetensors") == Read(one / "final/model.safetensors"));
}

TEST(TrainPackedBaseTest, TensorRanksShareIt) { ExpectThatTensorRanksShare(MakeBase(), "nf4"); }

TEST(TrainPackedBaseTest, TensorRanksShareTheBlocksOfAFile) {
  ExpectThatTensorRanksShare(Quantised(MakeBase(), zeroth::GgufMix::kQ8_0), "gguf");
}

// Copies the gpt-oss of tests/testdata with all scales of its MXFP4 as 2^-8, so that it trains.
fs::path TrainableGptOss() {
  const fs::path copy = Scratch() / "gpt_oss";
  fs::create_directories(copy);
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(fs::path("tests/testdata/gpt_oss_experts/mxfp4") / name, copy / name);
  }
  std::string bytes = Read(copy / "model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const nlohmann::json tensors = nlohmann::json::parse(bytes.substr(sizeof(header), header));
  for (const auto& [name, tensor] : tensors.items()) {
    if (!absl::EndsWith(name, "_scales")) continue;
    const auto begin = tensor["data_offsets"][0].get<size_t>();
    const auto end = tensor["data_offsets"][1].get<size_t>();
    std::fill_n(bytes.begin() + static_cast<int64_t>(sizeof(header) + header + begin), end - begin,
                char{119});
  }
  fs::remove(copy / "model.safetensors");
  Write(copy / "model.safetensors", bytes);
  return copy;
}

// A NumPy file of tokens of that model's vocabulary of 16.
fs::path TokensBelow16() {
  std::string file = "{'descr': '|u1', 'fortran_order': False, 'shape': (4096,), }";
  file.resize(117, ' ');
  file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + file + "\n";
  for (int i = 0; i < 4096; ++i) file += static_cast<char>(i * i / 7 % 16);
  const fs::path path = Scratch() / "tokens.npy";
  Write(path, file);
  return path;
}

// The blocks as they are give the bits of the decoded weights in full.
TEST(TrainPackedBaseTest, GptOssKeepsItsMxfp4) {
  const fs::path base = TrainableGptOss();
  const fs::path packed = Scratch() / "mxfp4";
  const fs::path full = Scratch() / "decoded";
  const Flags merged = {"--lora_export=merged", "--data=" + TokensBelow16().string()};
  const Outcome first = RunTrainer(With(With(Packed(base, packed, "mxfp4", 3), merged),
                                        {"--checkpoint_every=2", "--keep_last=0"}));
  ASSERT_EQ(first.exit_code, 0) << first.output << first.errors;
  EXPECT_TRUE(absl::StrContains(first.output, "kept as mxfp4, in 4.25 bits each")) << first.output;
  const Outcome second = RunTrainer(With(Packed(base, full, "none", 3), merged));
  ASSERT_EQ(second.exit_code, 0) << second.output << second.errors;
  EXPECT_EQ(StepFacts(packed), StepFacts(full));
  EXPECT_TRUE(Read(packed / "final/model.safetensors") == Read(full / "final/model.safetensors"));

  // The checkpoint has the blocks, so that a resumed run needs only the configuration. Without
  // files
  // --export_dtype=auto is fp32.
  const fs::path rest = Scratch() / "mxfp4_rest";
  const Outcome resumed = RunTrainer(
      With(With(Common(rest, 3), merged),
           {"--model=" + (base / "config.json").string(), "--lora_rank=4", "--base_dtype=mxfp4",
            "--export_dtype=bf16", "--resume=" + (packed / "step-00000002").string()}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output << resumed.errors;
  for (const char* name : {"final/model.safetensors", "final/config.json"}) {
    EXPECT_TRUE(Read(rest / name) == Read(packed / name)) << name << " has other bits";
  }
}

TEST(TrainPackedBaseTest, RefusesModelsThatItDoesNotFit) {
  const auto refused = [](const std::string& model, const std::string& dtype) {
    const Outcome run =
        RunTrainer(Packed(fs::path("tests/testdata") / model, Scratch() / "refused", dtype, 1));
    EXPECT_NE(run.exit_code, 0);
    return run.errors;
  };
  EXPECT_TRUE(absl::StrContains(refused("gpt2_tiny", "int8"), "expected a model other than GPT-2"));
  EXPECT_TRUE(absl::StrContains(refused("llama_tiny", "nf4"),
                                "rows of 60 values cannot be packed as nf4, in blocks of 64"));
  EXPECT_TRUE(absl::StrContains(refused("qwen3_moe_tiny", "nf4"), "rows of 48 values"));
  EXPECT_TRUE(absl::StrContains(refused("gpt_oss_tiny", "mxfp4"),
                                "no quantised weights for --base_dtype=mxfp4; expected a Hugging "
                                "Face directory of gpt-oss in MXFP4"));
  EXPECT_TRUE(absl::StrContains(refused("llama_tiny", "gguf"), "expected --init_from=FILE.gguf"));
}

}  // namespace
