// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"

namespace zeroth {
namespace {

// The blocks that have a tensor.
enum class Blocks { kAll, kFullAttention, kLinearAttention };

struct Row {
  absl::string_view hf;
  absl::string_view gguf;
  GgufLayout layout = GgufLayout::kSame;
  bool always_float32 = false;
  // Hugging Face's name has no ".weight" or ".bias". `gguf` is then the whole name.
  bool bare = false;
  Blocks blocks = Blocks::kAll;
};

struct Family {
  absl::string_view name;
  // The prefix of every name except the head's, and the prefix of a block's number.
  absl::string_view hf_prefix;
  absl::string_view hf_block;
  std::vector<Row> outside;
  std::vector<Row> inside;
  // Names of tensors of a block that hold no parameters.
  std::vector<absl::string_view> ignored;
};

constexpr absl::string_view kGgufBlock = "blk.";
// A "*" after this stands for the number of an expert in a row's name.
constexpr absl::string_view kHfExperts[] = {"mlp.experts.", "block_sparse_moe.experts."};
// All families keep the head outside their prefix.
constexpr Row kHead = {"lm_head", "output"};

// Names of Llama and of the families that share them. llama.cpp rotates neighbouring pairs in a
// Llama and the halves of a head in all others, so only a Llama's rows are reordered. `more` are
// further rows of the table for a block.
Family LlamaLike(absl::string_view name, std::vector<Row> norms,
                 const std::vector<Row>& feed_forward, const std::vector<Row>& more = {}) {
  const bool is_llama = name == "llama" || name == "mixtral";
  const bool is_gemma = name == "gemma2" || name == "gemma3";
  const GgufLayout norm = is_gemma ? GgufLayout::kPlusOne : GgufLayout::kSame;
  Family family = {name,
                   "model.",
                   "layers.",
                   {{"embed_tokens", "token_embd"}, {"norm", "output_norm", norm}},
                   std::move(norms),
                   {"self_attn.rotary_emb.inv_freq"}};
  const std::vector<Row> fused = {{"self_attn.qkv_proj", "attn_qkv"},
                                  {"self_attn.o_proj", "attn_output"}};
  const std::vector<Row> apart = {
      {"self_attn.q_proj", "attn_q", is_llama ? GgufLayout::kQueryRows : GgufLayout::kSame},
      {"self_attn.k_proj", "attn_k", is_llama ? GgufLayout::kKeyRows : GgufLayout::kSame},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}};
  for (const std::vector<Row>& rows : {name == "phi3" ? fused : apart, feed_forward, more}) {
    family.inside.insert(family.inside.end(), rows.begin(), rows.end());
  }
  return family;
}

// Most blocks have linear attention instead of Llama's. Hugging Face's multi-token prediction
// (MTP) layers are left out, as llama.cpp's converter does with --no-mtp.
Family Qwen35(const std::vector<Row>& feed_forward) {
  const GgufLayout plus_one = GgufLayout::kPlusOne;
  const GgufLayout same = GgufLayout::kSame;
  const GgufLayout value_rows = GgufLayout::kValueRows;
  const Blocks full = Blocks::kFullAttention;
  const Blocks linear = Blocks::kLinearAttention;
  Family family = {
      kQwen35,
      "model.",
      "layers.",
      {{"embed_tokens", "token_embd"}, {"norm", "output_norm", plus_one}},
      {{"input_layernorm", "attn_norm", plus_one},
       {"post_attention_layernorm", "post_attention_norm", plus_one},
       // Each head's queries, then the gates of its output, on both sides.
       {"self_attn.q_proj", "attn_q", same, false, false, full},
       {"self_attn.k_proj", "attn_k", same, false, false, full},
       {"self_attn.v_proj", "attn_v", same, false, false, full},
       {"self_attn.o_proj", "attn_output", same, false, false, full},
       {"self_attn.q_norm", "attn_q_norm", plus_one, false, false, full},
       {"self_attn.k_norm", "attn_k_norm", plus_one, false, false, full},
       {"linear_attn.in_proj_qkv", "attn_qkv", GgufLayout::kLastValueRows, false, false, linear},
       {"linear_attn.in_proj_z", "attn_gate", value_rows, false, false, linear},
       {"linear_attn.in_proj_a", "ssm_alpha", value_rows, false, false, linear},
       {"linear_attn.in_proj_b", "ssm_beta", value_rows, false, false, linear},
       {"linear_attn.conv1d", "ssm_conv1d", GgufLayout::kConvKernel, true, false, linear},
       {"linear_attn.A_log", "ssm_a", GgufLayout::kALog, true, true, linear},
       {"linear_attn.dt_bias", "ssm_dt.bias", value_rows, true, true, linear},
       {"linear_attn.norm", "ssm_norm", same, false, false, linear},
       {"linear_attn.out_proj", "ssm_out", GgufLayout::kValueColumns, false, false, linear}},
      {}};
  family.inside.insert(family.inside.end(), feed_forward.begin(), feed_forward.end());
  return family;
}

const std::vector<Family>& Families() {
  const std::vector<Row> norms_before = {{"input_layernorm", "attn_norm"},
                                         {"post_attention_layernorm", "ffn_norm"}};
  const std::vector<Row> norms_after = {{"post_attention_layernorm", "post_attention_norm"},
                                        {"post_feedforward_layernorm", "post_ffw_norm"}};
  const std::vector<Row> qk_norms = {{"self_attn.q_norm", "attn_q_norm"},
                                     {"self_attn.k_norm", "attn_k_norm"}};
  const GgufLayout plus_one = GgufLayout::kPlusOne;
  const std::vector<Row> norms_around = {
      {"input_layernorm", "attn_norm", plus_one},
      {"post_attention_layernorm", "post_attention_norm", plus_one},
      {"pre_feedforward_layernorm", "ffn_norm", plus_one},
      {"post_feedforward_layernorm", "post_ffw_norm", plus_one}};
  const std::vector<Row> qk_norms_plus_one = {{"self_attn.q_norm", "attn_q_norm", plus_one},
                                              {"self_attn.k_norm", "attn_k_norm", plus_one}};
  const std::vector<Row> dense = {
      {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}};
  // In these files ffn_up consists of gate's rows followed by up's rows.
  const std::vector<Row> fused = {{"mlp.gate_up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}};
  // llama.cpp computes the routing in float32.
  const std::vector<Row> mixture = {{"mlp.gate", "ffn_gate_inp", GgufLayout::kSame, true},
                                    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
                                    {"mlp.experts.*.up_proj", "ffn_up_exps"},
                                    {"mlp.experts.*.down_proj", "ffn_down_exps"}};
  const std::vector<Row> mixtral = {
      {"block_sparse_moe.gate", "ffn_gate_inp", GgufLayout::kSame, true},
      {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
      {"block_sparse_moe.experts.*.w3", "ffn_up_exps"},
      {"block_sparse_moe.experts.*.w2", "ffn_down_exps"}};
  const std::vector<Row> norms_of_gpt_oss = {{"input_layernorm", "attn_norm"},
                                             {"post_attention_layernorm", "post_attention_norm"}};
  const std::vector<Row> mixture_of_gpt_oss = {
      {"mlp.router", "ffn_gate_inp", GgufLayout::kSame, true}, mixture[1], mixture[2], mixture[3]};
  const std::vector<Row> sinks = {
      {"self_attn.sinks", "attn_sinks.weight", GgufLayout::kSame, true, /*bare=*/true}};
  static const auto* const families =
      new std::vector<Family>{{"gpt2",
                               "transformer.",
                               "h.",
                               {{"wte", "token_embd"},
                                // llama.cpp adds positions to embeddings without converting either.
                                {"wpe", "position_embd", GgufLayout::kSame, true},
                                {"ln_f", "output_norm"}},
                               {{"ln_1", "attn_norm"},
                                {"attn.c_attn", "attn_qkv", GgufLayout::kTransposed},
                                {"attn.c_proj", "attn_output", GgufLayout::kTransposed},
                                {"ln_2", "ffn_norm"},
                                {"mlp.c_fc", "ffn_up", GgufLayout::kTransposed},
                                {"mlp.c_proj", "ffn_down", GgufLayout::kTransposed}},
                               {"attn.bias", "attn.masked_bias"}},
                              LlamaLike("llama", norms_before, dense),
                              LlamaLike("mixtral", norms_before, mixtral),
                              LlamaLike("qwen2", norms_before, dense),
                              LlamaLike("qwen3", norms_before, dense, qk_norms),
                              LlamaLike("qwen3moe", norms_before, mixture, qk_norms),
                              LlamaLike("gpt-oss", norms_of_gpt_oss, mixture_of_gpt_oss, sinks),
                              LlamaLike("olmo2", norms_after, dense, qk_norms),
                              Qwen35(dense),
                              LlamaLike("phi3", norms_before, fused),
                              LlamaLike("gemma2", norms_around, dense),
                              LlamaLike("gemma3", norms_around, dense, qk_norms_plus_one)};
  return *families;
}

absl::StatusOr<const Family*> FindFamily(absl::string_view architecture) {
  std::string known;
  for (const Family& family : Families()) {
    if (family.name == architecture) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", family.name);
  }
  return Unimplemented("no mapping between the tensor names of Hugging Face and GGUF for \"",
                       architecture, "\"; there are mappings for ", known);
}

// Removes "12" from the front of "12.rest", leaving "rest". Empty if there is no number.
absl::string_view TakeNumber(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  if (digits == 0 || digits >= text->size() || (*text)[digits] != '.') return "";
  const absl::string_view number = text->substr(0, digits);
  text->remove_prefix(digits + 1);
  return number;
}

// Removes "weight" from the end of "name.weight", leaving "name". Empty if it is neither weight nor
// bias.
absl::string_view TakeKind(absl::string_view* text) {
  for (const absl::string_view kind : {"weight", "bias"}) {
    if (absl::EndsWith(*text, absl::StrCat(".", kind))) {
      text->remove_suffix(kind.size() + 1);
      return kind;
    }
  }
  return "";
}

// Returns the part of an expert's name before its number; empty if `name` is not an expert's.
absl::string_view ExpertsPrefix(absl::string_view name) {
  for (const absl::string_view prefix : kHfExperts) {
    if (absl::StartsWith(name, prefix)) return prefix;
  }
  return "";
}

// Takes 12 out of "mlp.experts.12.up_proj", leaving "mlp.experts.*.up_proj". Empty if the tensor is
// not an expert's.
std::optional<int64_t> TakeExpert(std::string* name) {
  const absl::string_view prefix = ExpertsPrefix(*name);
  absl::string_view rest = *name;
  rest.remove_prefix(prefix.size());
  int64_t expert = 0;
  if (prefix.empty() || !absl::SimpleAtoi(TakeNumber(&rest), &expert)) return std::nullopt;
  *name = absl::StrCat(prefix, "*.", rest);
  return expert;
}

const Row* FindRow(const std::vector<Row>& rows, absl::string_view Row::*side,
                   absl::string_view name) {
  for (const Row& row : rows) {
    if (row.*side == name) return &row;
  }
  return nullptr;
}

// `name` is the other side's, without its kind, which is empty for a bare name.
GgufTensorName Renamed(const Row& row, absl::string_view name, absl::string_view kind) {
  // A bias cannot be transposed, but its rows can be reordered.
  const bool same = row.layout == GgufLayout::kTransposed && kind == "bias";
  return {absl::StrCat(name, kind.empty() ? "" : ".", kind), same ? GgufLayout::kSame : row.layout,
          row.always_float32, std::nullopt};
}

// Neither side adds a bias in these layers, and it would have no heads to reorder.
bool HasNoBias(const Row& row) {
  return row.layout == GgufLayout::kConvKernel || row.layout == GgufLayout::kValueColumns;
}

absl::Status Unknown(absl::string_view architecture, absl::string_view name,
                     absl::string_view side) {
  return InvalidArgument("tensor \"", name, "\" is none that a ", side, " model of the family \"",
                         architecture, "\" is known to have");
}

}  // namespace

absl::Status CheckGgufArchitecture(absl::string_view architecture) {
  if (architecture == "mixtral") {
    return Unimplemented("no GGUF architecture \"mixtral\": expected \"llama\" with experts");
  }
  return FindFamily(architecture).status();
}

absl::string_view GgufArchitectureOf(absl::string_view model_type) {
  if (model_type == "mistral" || model_type == "mixtral") return "llama";
  if (model_type == "gemma3_text") return "gemma3";
  if (model_type == "gpt_oss") return "gpt-oss";
  if (model_type == "qwen3_5_text") return kQwen35;
  return model_type == "qwen3_moe" ? "qwen3moe" : model_type;
}

absl::StatusOr<std::string> GgufNamingOf(const GgufMetadata& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(std::string architecture, metadata.GetString("general.architecture"));
  if (architecture != "llama") return architecture;
  ZEROTH_ASSIGN_OR_RETURN(const int64_t experts, metadata.GetIntOr("llama.expert_count", 0));
  return experts > 0 ? "mixtral" : architecture;
}

absl::StatusOr<std::optional<GgufTensorName>> GgufNameOf(absl::string_view naming,
                                                         absl::string_view hf_name) {
  ZEROTH_ASSIGN_OR_RETURN(const Family* const family, FindFamily(naming));
  if (IsMtpTensor(hf_name)) return std::nullopt;
  absl::string_view rest = hf_name;
  const bool prefixed = absl::ConsumePrefix(&rest, family->hf_prefix);
  absl::string_view number;
  absl::string_view inner = rest;
  if (absl::ConsumePrefix(&inner, family->hf_block)) number = TakeNumber(&inner);
  if (!number.empty()) {
    rest = inner;
    for (const absl::string_view ignored : family->ignored) {
      if (rest == ignored) return std::nullopt;
    }
  }
  absl::string_view kind = TakeKind(&rest);
  const Row* row = nullptr;
  std::optional<int64_t> expert;
  if (!number.empty()) {
    std::string name(rest);
    expert = TakeExpert(&name);
    // A "*" stands for a number in our table only.
    if (expert || !absl::StrContains(name, '*')) row = FindRow(family->inside, &Row::hf, name);
  } else if (!prefixed && rest == kHead.hf) {
    row = &kHead;
  } else {
    row = FindRow(family->outside, &Row::hf, rest);
  }
  if (row == nullptr || kind.empty() != row->bare || (kind == "bias" && HasNoBias(*row))) {
    return Unknown(naming, hf_name, "Hugging Face");
  }
  if (row->bare) kind = "";
  const std::string prefix = number.empty() ? "" : absl::StrCat(kGgufBlock, number, ".");
  GgufTensorName renamed = Renamed(*row, absl::StrCat(prefix, row->gguf), kind);
  renamed.expert = expert;
  return renamed;
}

absl::StatusOr<std::optional<GgufTensorName>> HfNameOf(absl::string_view naming,
                                                       absl::string_view gguf_name,
                                                       int64_t expert) {
  ZEROTH_ASSIGN_OR_RETURN(const Family* const family, FindFamily(naming));
  if (gguf_name == kGgufRopeFactors) return std::nullopt;
  absl::string_view rest = gguf_name;
  absl::string_view number;
  absl::string_view inner = rest;
  if (absl::ConsumePrefix(&inner, kGgufBlock)) number = TakeNumber(&inner);
  if (!number.empty()) rest = inner;
  const std::vector<Row>& rows = number.empty() ? family->outside : family->inside;
  const Row* row = FindRow(rows, &Row::gguf, rest);
  const bool whole = row != nullptr && row->bare;
  const absl::string_view kind = whole ? "" : TakeKind(&rest);
  if (!whole) row = FindRow(rows, &Row::gguf, rest);
  if (row == nullptr && number.empty() && rest == kHead.gguf) row = &kHead;
  if (row == nullptr || kind.empty() != row->bare || (kind == "bias" && HasNoBias(*row))) {
    return Unknown(naming, gguf_name, "GGUF");
  }
  std::string prefix;
  if (row != &kHead) prefix = std::string(family->hf_prefix);
  if (!number.empty()) absl::StrAppend(&prefix, family->hf_block, number, ".");
  GgufTensorName renamed = Renamed(*row, absl::StrCat(prefix, row->hf), kind);
  if (!ExpertsPrefix(row->hf).empty()) {
    renamed.expert = expert;
    renamed.name = absl::StrReplaceAll(renamed.name, {{"*", absl::StrCat(expert)}});
  }
  return renamed;
}

int64_t GgufBlockNumber(absl::string_view gguf_name) {
  int64_t number = -1;
  const bool inside = absl::ConsumePrefix(&gguf_name, kGgufBlock);
  return inside && absl::SimpleAtoi(TakeNumber(&gguf_name), &number) ? number : -1;
}

absl::StatusOr<std::string> MissingGgufTensor(absl::string_view naming, int64_t blocks, bool tied,
                                              const std::set<std::string>& present,
                                              int64_t interval) {
  ZEROTH_ASSIGN_OR_RETURN(const Family* const family, FindFamily(naming));
  std::vector<Row> outside = family->outside;
  if (!tied) outside.push_back(kHead);
  for (const Row& row : outside) {
    std::string name = absl::StrCat(row.gguf, ".weight");
    if (present.count(name) == 0) return name;
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const Blocks without =
        (block + 1) % interval == 0 ? Blocks::kLinearAttention : Blocks::kFullAttention;
    for (const Row& row : family->inside) {
      if (row.blocks == without) continue;
      std::string name = absl::StrCat(kGgufBlock, block, ".", row.gguf, row.bare ? "" : ".weight");
      if (present.count(name) == 0) return name;
    }
  }
  return std::string();
}

}  // namespace zeroth
