// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"

namespace zeroth {
namespace {

struct Pair {
  const char* family;
  const char* hf;
  const char* gguf;
  GgufLayout layout;
};

// From llama.cpp's tables.
const std::vector<Pair>& Pairs() {
  static const auto* const pairs = new std::vector<Pair>{
      {"gpt2", "transformer.wte.weight", "token_embd.weight", GgufLayout::kSame},
      {"gpt2", "transformer.wpe.weight", "position_embd.weight", GgufLayout::kSame},
      {"gpt2", "transformer.ln_f.bias", "output_norm.bias", GgufLayout::kSame},
      {"gpt2", "lm_head.weight", "output.weight", GgufLayout::kSame},
      {"gpt2", "transformer.h.0.ln_1.weight", "blk.0.attn_norm.weight", GgufLayout::kSame},
      {"gpt2", "transformer.h.11.attn.c_attn.weight", "blk.11.attn_qkv.weight",
       GgufLayout::kTransposed},
      {"gpt2", "transformer.h.11.attn.c_attn.bias", "blk.11.attn_qkv.bias", GgufLayout::kSame},
      {"gpt2", "transformer.h.3.mlp.c_proj.weight", "blk.3.ffn_down.weight",
       GgufLayout::kTransposed},
      {"llama", "model.embed_tokens.weight", "token_embd.weight", GgufLayout::kSame},
      {"llama", "model.norm.weight", "output_norm.weight", GgufLayout::kSame},
      {"llama", "lm_head.weight", "output.weight", GgufLayout::kSame},
      {"llama", "model.layers.31.self_attn.q_proj.weight", "blk.31.attn_q.weight",
       GgufLayout::kQueryRows},
      {"llama", "model.layers.31.self_attn.q_proj.bias", "blk.31.attn_q.bias",
       GgufLayout::kQueryRows},
      {"llama", "model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight",
       GgufLayout::kKeyRows},
      {"llama", "model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", GgufLayout::kSame},
      {"llama", "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", GgufLayout::kSame},
      {"qwen3moe", "model.layers.3.mlp.gate.weight", "blk.3.ffn_gate_inp.weight",
       GgufLayout::kSame},
      {"qwen35", "model.norm.weight", "output_norm.weight", GgufLayout::kPlusOne},
      {"qwen35", "model.layers.0.post_attention_layernorm.weight",
       "blk.0.post_attention_norm.weight", GgufLayout::kPlusOne},
      {"qwen35", "model.layers.3.self_attn.q_proj.weight", "blk.3.attn_q.weight",
       GgufLayout::kSame},
      {"qwen35", "model.layers.0.linear_attn.in_proj_qkv.weight", "blk.0.attn_qkv.weight",
       GgufLayout::kLastValueRows},
      {"qwen35", "model.layers.0.linear_attn.in_proj_z.weight", "blk.0.attn_gate.weight",
       GgufLayout::kValueRows},
      {"qwen35", "model.layers.0.linear_attn.in_proj_a.weight", "blk.0.ssm_alpha.weight",
       GgufLayout::kValueRows},
      {"qwen35", "model.layers.0.linear_attn.in_proj_b.weight", "blk.0.ssm_beta.weight",
       GgufLayout::kValueRows},
      {"qwen35", "model.layers.0.linear_attn.conv1d.weight", "blk.0.ssm_conv1d.weight",
       GgufLayout::kConvKernel},
      {"qwen35", "model.layers.0.linear_attn.A_log", "blk.0.ssm_a", GgufLayout::kALog},
      {"qwen35", "model.layers.0.linear_attn.dt_bias", "blk.0.ssm_dt.bias", GgufLayout::kValueRows},
      {"qwen35", "model.layers.0.linear_attn.norm.weight", "blk.0.ssm_norm.weight",
       GgufLayout::kSame},
      {"qwen35", "model.layers.0.linear_attn.out_proj.weight", "blk.0.ssm_out.weight",
       GgufLayout::kValueColumns},
      {"phi3", "model.layers.3.self_attn.qkv_proj.weight", "blk.3.attn_qkv.weight",
       GgufLayout::kSame},
      {"phi3", "model.layers.3.mlp.gate_up_proj.weight", "blk.3.ffn_up.weight", GgufLayout::kSame},
      {"gemma2", "model.norm.weight", "output_norm.weight", GgufLayout::kPlusOne},
      {"gemma2", "model.layers.2.pre_feedforward_layernorm.weight", "blk.2.ffn_norm.weight",
       GgufLayout::kPlusOne},
      {"gemma2", "model.layers.2.self_attn.k_proj.weight", "blk.2.attn_k.weight",
       GgufLayout::kSame},
      {"gemma3", "model.norm.weight", "output_norm.weight", GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.input_layernorm.weight", "blk.2.attn_norm.weight",
       GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.post_attention_layernorm.weight",
       "blk.2.post_attention_norm.weight", GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.pre_feedforward_layernorm.weight", "blk.2.ffn_norm.weight",
       GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.post_feedforward_layernorm.weight", "blk.2.post_ffw_norm.weight",
       GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.self_attn.k_norm.weight", "blk.2.attn_k_norm.weight",
       GgufLayout::kPlusOne},
      {"gemma3", "model.layers.2.self_attn.q_proj.weight", "blk.2.attn_q.weight",
       GgufLayout::kSame}};
  return *pairs;
}

TEST(GgufNamesTest, BothWays) {
  for (const Pair& pair : Pairs()) {
    const auto gguf = GgufNameOf(pair.family, pair.hf);
    ASSERT_TRUE(gguf.ok() && gguf->has_value()) << pair.hf << gguf.status();
    EXPECT_EQ((*gguf)->name, pair.gguf);
    EXPECT_EQ((*gguf)->layout, pair.layout) << pair.hf;
    const auto hf = HfNameOf(pair.family, pair.gguf);
    ASSERT_TRUE(hf.ok() && hf->has_value()) << pair.gguf << hf.status();
    EXPECT_EQ((*hf)->name, pair.hf);
    EXPECT_EQ((*hf)->layout, pair.layout) << pair.gguf;
  }
  EXPECT_EQ((*GgufNameOf("gpt2", "h.2.mlp.c_fc.bias"))->name, "blk.2.ffn_up.bias")
      << "OpenAI's files have no prefix";
  EXPECT_TRUE((*GgufNameOf("gpt2", "transformer.wpe.weight"))->always_float32);
}

TEST(GgufNamesTest, ExpertsShareATensor) {
  for (const char* name : {"gate", "up", "down"}) {
    const std::string gguf = absl::StrCat("blk.3.ffn_", name, "_exps.weight");
    for (const int64_t expert : {0, 12}) {
      const std::string hf =
          absl::StrCat("model.layers.3.mlp.experts.", expert, ".", name, "_proj.weight");
      const auto to_gguf = GgufNameOf("qwen3moe", hf);
      ASSERT_TRUE(to_gguf.ok()) << to_gguf.status();
      EXPECT_EQ((*to_gguf)->name, gguf);
      EXPECT_EQ((*to_gguf)->expert, expert);
      const auto to_hf = HfNameOf("qwen3moe", gguf, expert);
      ASSERT_TRUE(to_hf.ok()) << to_hf.status();
      EXPECT_EQ((*to_hf)->name, hf);
      EXPECT_EQ((*to_hf)->expert, expert);
    }
  }
  EXPECT_TRUE((*GgufNameOf("qwen3moe", "model.layers.0.mlp.gate.weight"))->always_float32);
  for (const char* name :
       {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.experts.*.up_proj.weight",
        "model.layers.0.mlp.experts.up_proj.weight", "model.layers.0.mlp.experts.x.up_proj.weight",
        "model.layers.0.mlp.experts.1.gate.weight",
        "model.layers.0.mlp.experts.99999999999999999999.up_proj.weight"}) {
    EXPECT_EQ(GgufNameOf("qwen3moe", name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(GgufNamesTest, WhatHoldsNoParametersHasNoName) {
  EXPECT_FALSE(GgufNameOf("gpt2", "h.0.attn.bias")->has_value());
  EXPECT_FALSE(GgufNameOf("gpt2", "transformer.h.0.attn.masked_bias")->has_value());
  EXPECT_FALSE(GgufNameOf("llama", "model.layers.1.self_attn.rotary_emb.inv_freq")->has_value());
  EXPECT_FALSE(HfNameOf("llama", "rope_freqs.weight")->has_value());
  EXPECT_FALSE(GgufNameOf("qwen35", "mtp.layers.0.self_attn.q_proj.weight")->has_value());
  EXPECT_FALSE(GgufNameOf("qwen35", "model.mtp.fc.weight")->has_value());
}

TEST(GgufNamesTest, RefusesOthers) {
  for (const char* name :
       {"", ".weight", "model.weight", "model.norm", "model.norm.scale", "norm.weightx",
        "model.layers.norm.weight", "model.layers.x.mlp.up_proj.weight",
        "model.layers.0.mlp.up_proj", "model.layers.0.norm.weight", "model.lm_head.weight",
        "transformer.wte.weight"}) {
    EXPECT_EQ(GgufNameOf("llama", name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  for (const char* name : {"blk.0.ssm_a.weight", "blk.0.ssm_dt", "blk.0.ssm_dt.weight",
                           "blk.0.ssm_out.bias", "blk.0.ssm_conv1d.bias"}) {
    EXPECT_EQ(HfNameOf("qwen35", name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  for (const char* name : {"out_proj.bias", "conv1d.bias", "A_log.weight"}) {
    EXPECT_EQ(
        GgufNameOf("qwen35", absl::StrCat("model.layers.0.linear_attn.", name)).status().code(),
        absl::StatusCode::kInvalidArgument)
        << name;
  }
  for (const char* name : {"", "blk.weight", "blk.0.weight", "blk.x.ffn_up.weight", "ffn_up.weight",
                           "blk.0.token_embd.weight", "blk.token_embd.weight", "output",
                           "blk.0.ffn_gate_exps.weight"}) {
    EXPECT_EQ(HfNameOf("llama", name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(HfNameOf("mamba", "token_embd.weight").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(GgufNamesTest, NamesTheFirstMissingTensor) {
  std::set<std::string> present = {"token_embd.weight", "output_norm.weight"};
  for (const char* name : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                           "ffn_gate", "ffn_up", "ffn_down"}) {
    present.insert(absl::StrCat("blk.0.", name, ".weight"));
  }
  EXPECT_EQ(*MissingGgufTensor("llama", 1, /*tied=*/true, present), "");
  EXPECT_EQ(*MissingGgufTensor("llama", 1, /*tied=*/false, present), "output.weight");
  EXPECT_EQ(*MissingGgufTensor("llama", int64_t{1} << 32, /*tied=*/true, present),
            "blk.1.attn_norm.weight");
  present.erase("blk.0.ffn_up.weight");
  EXPECT_EQ(*MissingGgufTensor("llama", 1, /*tied=*/true, present), "blk.0.ffn_up.weight");
}

// A Llama with experts is a Mixtral: w1, w3 and w2 are gate, up and down.
TEST(GgufNamesTest, MixtralHasItsOwnNamesInLlamasArchitecture) {
  EXPECT_EQ(GgufArchitectureOf("mixtral"), "llama");
  EXPECT_EQ(GgufArchitectureOf("gemma3_text"), "gemma3");
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  EXPECT_EQ(*GgufNamingOf(metadata), "llama");
  metadata.SetUint32("llama.expert_count", 8);
  EXPECT_EQ(*GgufNamingOf(metadata), "mixtral");
  for (const auto& [hf, gguf] :
       {std::pair("experts.3.w1", "ffn_gate_exps"), std::pair("experts.3.w3", "ffn_up_exps"),
        std::pair("experts.3.w2", "ffn_down_exps"), std::pair("gate", "ffn_gate_inp")}) {
    const std::string name = std::string("model.layers.1.block_sparse_moe.") + hf + ".weight";
    const std::string stacked = std::string("blk.1.") + gguf + ".weight";
    EXPECT_EQ((*GgufNameOf("mixtral", name))->name, stacked);
    EXPECT_EQ((*HfNameOf("mixtral", stacked, 3))->name, name);
  }
  EXPECT_EQ((*GgufNameOf("mixtral", "model.layers.1.self_attn.q_proj.weight"))->layout,
            GgufLayout::kQueryRows);
  EXPECT_FALSE(CheckGgufArchitecture("mixtral").ok());
}

}  // namespace
}  // namespace zeroth
