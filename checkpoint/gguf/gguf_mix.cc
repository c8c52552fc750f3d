// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_mix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"

namespace zeroth {
namespace {

// The largest finite half-precision number.
constexpr float kMaxMagnitude = 65504.0f;
// Elements that one thread quantises at a time: a multiple of every block, and milliseconds of
// work.
constexpr size_t kElementsAtATime = size_t{1} << 16;

struct ModelFacts {
  int64_t blocks = 0;
  GgufDivision division;
  bool has_head = false;
  // llama.cpp's "70B" models.
  bool is_70b = false;
};

// Blocks whose attn_v and ffn_down matter most.
bool GetsMoreBits(int64_t block, int64_t blocks) {
  const int64_t eighth = blocks / 8;
  return block < eighth || block >= 7 * blocks / 8 || (block - eighth) % 3 == 2;
}

GgufBlock TypeInQ4KM(absl::string_view name, const ModelFacts& model) {
  if (name == (model.has_head ? "output.weight" : "token_embd.weight")) return GgufBlock::kQ6_K;
  const auto is = [&](absl::string_view part) { return absl::StrContains(name, part); };
  const bool more = GetsMoreBits(GgufBlockNumber(name), model.blocks);
  const bool eight_experts = model.division.experts == 8;
  if (is(".attn_v.") || is(".attn_k.") || is(".attn_qkv.")) {
    if (eight_experts) return GgufBlock::kQ8_0;
    if (is(".attn_k.")) return GgufBlock::kQ4_K;
    if (more) return GgufBlock::kQ6_K;
    return model.is_70b ? GgufBlock::kQ5_K : GgufBlock::kQ4_K;
  }
  if (is(".ffn_down")) return more ? GgufBlock::kQ6_K : GgufBlock::kQ4_K;
  return eight_experts && is(".attn_output.") ? GgufBlock::kQ5_K : GgufBlock::kQ4_K;
}

// The type that llama.cpp uses instead where blocks of `type` do not divide a row. Empty: F16.
std::optional<GgufBlock> NextBest(GgufBlock type) {
  switch (type) {
    case GgufBlock::kQ4_K:
      return GgufBlock::kQ5_0;
    case GgufBlock::kQ5_K:
      return GgufBlock::kQ5_1;
    case GgufBlock::kQ6_K:
      return GgufBlock::kQ8_0;
    default:
      return std::nullopt;
  }
}

std::string NameOf(std::optional<GgufBlock> type) {
  return type ? std::string(QuantizedTypeName(static_cast<uint32_t>(*type))) : "F16";
}

absl::StatusOr<ModelFacts> FactsOf(const GgufMetadata& metadata,
                                   absl::Span<const TensorDeclaration> tensors) {
  ModelFacts facts;
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture,
                          metadata.GetString("general.architecture"));
  ZEROTH_ASSIGN_OR_RETURN(facts.blocks,
                          metadata.GetInt(absl::StrCat(architecture, ".block_count")));
  ZEROTH_ASSIGN_OR_RETURN(facts.division, GgufDivisionOf(metadata));
  facts.has_head = std::any_of(tensors.begin(), tensors.end(), [](const TensorDeclaration& tensor) {
    return tensor.name == "output.weight";
  });
  facts.is_70b = facts.blocks == 80 && facts.division.key_heads < facts.division.query_heads &&
                 (architecture == "llama" || architecture == "qwen2");
  return facts;
}

absl::Status CheckValues(absl::string_view name, absl::Span<const float> values) {
  for (const float value : values) {
    if (std::abs(value) <= kMaxMagnitude) continue;
    return absl::OutOfRangeError(absl::StrCat("tensor \"", name, "\" holds ", value,
                                              ", expected magnitudes of at most ", kMaxMagnitude,
                                              ", as quantised blocks can hold; choose bf16 or "
                                              "fp32"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufMixedTypes> ChooseGgufBlocks(GgufMix mix, const GgufMetadata& metadata,
                                                absl::Span<const TensorDeclaration> tensors) {
  ZEROTH_ASSIGN_OR_RETURN(const ModelFacts facts, FactsOf(metadata, tensors));
  GgufMixedTypes result;
  std::map<std::string, int> counts;
  // The tensors that got another type than the wanted one. Maps (wanted type, chosen type) to their
  // number and the first of them.
  std::map<std::pair<std::string, std::string>, std::pair<int, const TensorDeclaration*>> gave_way;
  for (const TensorDeclaration& tensor : tensors) {
    if (tensor.dtype != DType::kFloat16) continue;
    const GgufBlock wanted =
        mix == GgufMix::kQ8_0 ? GgufBlock::kQ8_0 : TypeInQ4KM(tensor.name, facts);
    const int64_t row = tensor.shape.dim(tensor.shape.rank() - 1);
    std::optional<GgufBlock> type = wanted;
    while (type && row % SizeOf(*type).elements != 0) type = NextBest(*type);
    ++counts[NameOf(type)];
    if (type != wanted) {
      auto& [count, first] = gave_way[{NameOf(wanted), NameOf(type)}];
      if (count++ == 0) first = &tensor;
    }
    if (type) result.blocks[tensor.name] = *type;
  }
  std::string types;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&types, types.empty() ? "" : ", ", count, " in ", name);
  }
  result.notes.push_back(absl::StrCat("Matrices: ", types, "; vectors are in F32."));
  for (const auto& [names, tensors_of] : gave_way) {
    const auto& [count, first] = tensors_of;
    result.notes.push_back(absl::StrCat(count, " of them would be ", names.first, ", but ",
                                        names.first, "'s blocks do not divide their rows, as of \"",
                                        first->name, "\" ", first->shape.ToString(),
                                        "; as in llama.cpp, they are ", names.second, "."));
  }
  return result;
}

absl::Status WriteQuantized(GgufBlock type, absl::string_view name, int64_t begin,
                            absl::Span<const float> values, TensorFileWriter* writer) {
  ZEROTH_RETURN_IF_ERROR(CheckValues(name, values));
  const GgufBlockSize size = SizeOf(type);
  const auto bytes_of = [&size](size_t elements) {
    return elements / static_cast<size_t>(size.elements) * static_cast<size_t>(size.bytes);
  };
  std::vector<uint8_t> blocks(bytes_of(values.size()));
  const size_t pieces = (values.size() + kElementsAtATime - 1) / kElementsAtATime;
  const size_t threads =
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, std::max<size_t>(pieces, 1));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t piece = next++; piece < pieces; piece = next++) {
      const size_t from = piece * kElementsAtATime;
      const size_t count = std::min(kElementsAtATime, values.size() - from);
      QuantizeBlocks(type, values.subspan(from, count),
                     absl::MakeSpan(blocks).subspan(bytes_of(from), bytes_of(count)));
    }
  };
  ZEROTH_RETURN_IF_ERROR(RunOnThreads(threads, "quantising", work));
  return writer->WriteBytes(name, static_cast<int64_t>(bytes_of(static_cast<size_t>(begin))),
                            blocks);
}

}  // namespace zeroth
