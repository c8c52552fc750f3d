// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/llmc_model.h"

#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int32_t kMagic = 20240326;
constexpr int32_t kLlama3Magic = 20240803;
constexpr size_t kHeaderBytes = 1024;
// Far above any GPT-2, and small enough that no size below overflows 63 bits.
constexpr int32_t kMaxWidth = 1 << 20;
constexpr int32_t kMaxLayers = 1 << 16;
constexpr int32_t kMaxRows = 1 << 24;

// In the order of the file, after its magic number and version.
struct Header {
  SafetensorsDType dtype = SafetensorsDType::kF32;
  int64_t positions = 0;
  int64_t vocab = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t padded_vocab = 0;
};

// One kind of parameter of a block.
struct Kind {
  const char* name;
  // In multiples of the model's width; columns is 0 for a vector.
  int rows;
  int columns;
};

// In the file's order: all layers of the first kind, then all of the second, ...
constexpr std::array<Kind, 12> kBlock = {{{"ln_1.weight", 1, 0},
                                          {"ln_1.bias", 1, 0},
                                          {"attn.c_attn.weight", 3, 1},
                                          {"attn.c_attn.bias", 3, 0},
                                          {"attn.c_proj.weight", 1, 1},
                                          {"attn.c_proj.bias", 1, 0},
                                          {"ln_2.weight", 1, 0},
                                          {"ln_2.bias", 1, 0},
                                          {"mlp.c_fc.weight", 4, 1},
                                          {"mlp.c_fc.bias", 4, 0},
                                          {"mlp.c_proj.weight", 1, 4},
                                          {"mlp.c_proj.bias", 1, 0}}};

int32_t HeaderInt(absl::Span<const uint8_t> head, size_t index) {
  int32_t value = 0;
  std::memcpy(&value, head.data() + index * sizeof(value), sizeof(value));
  return value;
}

absl::Status CheckField(const char* name, size_t index, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return InvalidArgument("the ", name, " (header field ", index, ") is ", value, ", expected 1 to ",
                         max);
}

int64_t Elements(const Header& header) {
  int64_t per_layer = 0;
  for (const Kind& kind : kBlock) {
    const int64_t rows = kind.rows * header.width;
    per_layer += kind.columns == 0 ? rows : rows * kind.columns * header.width;
  }
  const int64_t outside = header.padded_vocab + header.positions + 2;
  return outside * header.width + header.layers * per_layer;
}

absl::StatusOr<Header> ParseHeader(absl::Span<const uint8_t> head, size_t file_bytes) {
  if (head.size() < sizeof(int32_t) ||
      (HeaderInt(head, 0) != kMagic && HeaderInt(head, 0) != kLlama3Magic)) {
    return InvalidArgument("not a model of llm.c: it does not begin with the int32 ", kMagic);
  }
  if (HeaderInt(head, 0) == kLlama3Magic) {
    return absl::UnimplementedError(
        "a Llama 3 model of llm.c, expected a GPT-2 model; export it to a Hugging Face directory");
  }
  if (file_bytes < kHeaderBytes) {
    return InvalidArgument("holds ", file_bytes, " bytes, expected ", kHeaderBytes,
                           " of header; is it truncated?");
  }
  const int32_t version = HeaderInt(head, 1);
  if (version != 3 && version != 5) {
    return Unimplemented("version ", version,
                         " of llm.c's model files, expected 3 (fp32) or 5 (bf16); "
                         "export it with a newer llm.c");
  }
  const Header header = {version == 3 ? SafetensorsDType::kF32 : SafetensorsDType::kBF16,
                         HeaderInt(head, 2),
                         HeaderInt(head, 3),
                         HeaderInt(head, 4),
                         HeaderInt(head, 5),
                         HeaderInt(head, 6),
                         HeaderInt(head, 7)};
  ZEROTH_RETURN_IF_ERROR(CheckField("context length", 2, header.positions, kMaxRows));
  ZEROTH_RETURN_IF_ERROR(CheckField("padded vocabulary", 7, header.padded_vocab, kMaxRows));
  ZEROTH_RETURN_IF_ERROR(CheckField("vocabulary", 3, header.vocab, header.padded_vocab));
  ZEROTH_RETURN_IF_ERROR(CheckField("number of layers", 4, header.layers, kMaxLayers));
  ZEROTH_RETURN_IF_ERROR(CheckField("width", 6, header.width, kMaxWidth));
  ZEROTH_RETURN_IF_ERROR(CheckField("number of heads", 5, header.heads, header.width));
  if (header.width % header.heads != 0) {
    return InvalidArgument("the width (header field 6) is ", header.width,
                           ", expected a multiple of the ", header.heads, " heads");
  }
  const int64_t expected =
      static_cast<int64_t>(kHeaderBytes) + Elements(header) * (BitsOf(header.dtype) / 8);
  if (static_cast<int64_t>(file_bytes) != expected) {
    return InvalidArgument("holds ", file_bytes, " bytes, expected ", expected, " for ",
                           header.layers, " layers of width ", header.width, ", ",
                           header.padded_vocab, " tokens and ", header.positions,
                           " positions; is it truncated?");
  }
  return header;
}

absl::StatusOr<HfConfig> MakeConfig(const Header& header, const std::string& path) {
  nlohmann::json json = {{"model_type", "gpt2"},
                         {"activation_function", "gelu_new"},
                         {"vocab_size", header.vocab},
                         {"n_positions", header.positions},
                         {"n_ctx", header.positions},
                         {"n_embd", header.width},
                         {"n_layer", header.layers},
                         {"n_head", header.heads},
                         {"n_inner", nullptr},
                         // llm.c has this as a constant, and no dropout at all.
                         {"layer_norm_epsilon", 1e-5},
                         {"attn_pdrop", 0.0},
                         {"embd_pdrop", 0.0},
                         {"resid_pdrop", 0.0},
                         {"tie_word_embeddings", true},
                         // GPT-2's end of text is the last of its tokens.
                         {"bos_token_id", header.vocab - 1},
                         {"eos_token_id", header.vocab - 1}};
  json["architectures"] = {"GPT2LMHeadModel"};
  json["torch_dtype"] = header.dtype == SafetensorsDType::kF32 ? "float32" : "bfloat16";
  return HfConfig::Parse(json.dump(), path);
}

TensorEntries Layout(const Header& header) {
  TensorEntries tensors;
  const int64_t element = BitsOf(header.dtype) / 8;
  int64_t position = static_cast<int64_t>(kHeaderBytes);
  const auto add = [&](const std::string& name, const Shape& shape, int64_t stored) {
    tensors.emplace(
        absl::StrCat("transformer.", name),
        SafetensorsEntry{header.dtype, shape, position, position + shape.numel() * element});
    position += stored * element;
  };
  const int64_t width = header.width;
  add("wte.weight", {header.vocab, width}, header.padded_vocab * width);
  add("wpe.weight", {header.positions, width}, header.positions * width);
  for (const Kind& kind : kBlock) {
    const Shape shape = kind.columns == 0 ? Shape({kind.rows * width})
                                          : Shape({kind.rows * width, kind.columns * width});
    for (int64_t layer = 0; layer < header.layers; ++layer) {
      add(absl::StrCat("h.", layer, ".", kind.name), shape, shape.numel());
    }
  }
  add("ln_f.weight", {width}, width);
  add("ln_f.bias", {width}, width);
  return tensors;
}

}  // namespace

bool HasLlmcModelMagic(absl::Span<const uint8_t> head) {
  if (head.size() < sizeof(int32_t)) return false;
  return HeaderInt(head, 0) == kMagic || HeaderInt(head, 0) == kLlama3Magic;
}

absl::StatusOr<std::unique_ptr<LlmcModelFile>> LlmcModelFile::Open(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(kHeaderBytes));
  const absl::StatusOr<Header> header = ParseHeader(head, file.size());
  if (!header.ok()) return Annotate(header.status(), path);
  ZEROTH_ASSIGN_OR_RETURN(HfConfig config, MakeConfig(*header, path));
  return std::unique_ptr<LlmcModelFile>(
      new LlmcModelFile(std::move(file), Layout(*header), std::move(config)));
}

absl::Status ConvertLlmcToHf(const LlmcModelFile& model, const std::string& directory,
                             const HfConvertOptions& options) {
  std::vector<TensorCopy> copies;
  for (const auto& [name, entry] : model.tensors()) {
    TensorCopy& copy = copies.emplace_back();
    copy.from = name;
    copy.to = name;
    // Only a block's linear layers are matrices.
    const bool is_linear = entry.shape.rank() == 2 && absl::StartsWith(name, "transformer.h.");
    if (is_linear) copy.relayout = Relayout::kTranspose;
  }
  return WriteHfDirectory(model, model.config(), std::move(copies), /*tokenizer_files=*/{},
                          directory, options);
}

}  // namespace zeroth
