// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_adapter.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_copies.h"
#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kTypeKey[] = "general.type";
constexpr char kAdapter[] = "adapter";
constexpr char kArchitectureKey[] = "general.architecture";
constexpr char kAdapterTypeKey[] = "adapter.type";
constexpr absl::string_view kLora = "lora";
constexpr char kAlphaKey[] = "adapter.lora.alpha";
constexpr char kActivationKey[] = "adapter.alora.invocation_tokens";
constexpr char kGgufLoraA[] = ".lora_a";
constexpr char kGgufLoraB[] = ".lora_b";
constexpr char kWeight[] = ".weight";

// The model as its GGUF file describes it.
struct Base {
  std::string architecture;
  std::string naming;
  GgufDivision division;
};

absl::StatusOr<Base> BaseOf(const HfConfig& config) {
  ZEROTH_ASSIGN_OR_RETURN(const GgufMetadata metadata, GgufMetadataOf(config));
  Base base;
  ZEROTH_ASSIGN_OR_RETURN(base.architecture, metadata.GetString(kArchitectureKey));
  ZEROTH_ASSIGN_OR_RETURN(base.naming, GgufNamingOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(base.division, GgufDivisionOf(metadata));
  return base;
}

// Only B has the weight's rows, and only A its columns. PEFT stores A and B of a weight [out, in]
// even if the model stores the weight transposed.
GgufLayout LayoutOfLoraMatrix(GgufLayout weight, bool is_a) {
  const bool moves_rows = weight == GgufLayout::kQueryRows || weight == GgufLayout::kKeyRows ||
                          weight == GgufLayout::kValueRows || weight == GgufLayout::kLastValueRows;
  const bool is_reordered = is_a ? weight == GgufLayout::kValueColumns : moves_rows;
  return is_reordered ? weight : GgufLayout::kSame;
}

absl::Status CheckAdapter(const GgufFile& file, const Base& base) {
  const GgufMetadata& metadata = file.metadata();
  ZEROTH_ASSIGN_OR_RETURN(const std::string type, metadata.GetString(kAdapterTypeKey));
  if (type != kLora || metadata.Has(kActivationKey)) {
    return Unimplemented(file.description(), ": an adapter of type ",
                         type != kLora ? EscapeForMessage(type) : "activated LoRA",
                         ", expected plain LoRA");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture, metadata.GetString(kArchitectureKey));
  if (architecture == base.architecture) return absl::OkStatus();
  return InvalidArgument(file.description(), ": an adapter of a ", EscapeForMessage(architecture),
                         ", but the base model is a \"", base.architecture, "\"");
}

// Sets `*rank` to the LoRA rank in the shape of one A or B tensor. Refuses a rank that differs from
// that of the earlier tensors, unless `*rank` is still 0.
absl::Status SetRank(const GgufFile& file, const std::string& name, bool is_a, int64_t* rank) {
  const Shape& shape = file.Find(name)->shape;
  const int dim = shape.rank() - (is_a ? 2 : 1);
  if (shape.rank() >= 2 && shape.dim(dim) > 0 && (*rank == 0 || *rank == shape.dim(dim))) {
    *rank = shape.dim(dim);
    return absl::OkStatus();
  }
  return InvalidArgument(file.description(), ": tensor ", EscapeForMessage(name), " has shape ",
                         shape.ToString(), ", expected ", is_a ? "[rank, in]" : "[out, rank]",
                         " with the rank of the other tensors",
                         *rank == 0 ? "" : absl::StrCat(", ", *rank));
}

}  // namespace

bool IsGgufAdapter(const GgufFile& file) {
  const GgufValue* const type = file.metadata().Find(kTypeKey);
  return type != nullptr && *type == GgufValue(std::string(kAdapter));
}

absl::Status ConvertAdapterToGguf(const HfConfig& base_config, const PeftAdapter& adapter,
                                  const WeightsSource& weights,
                                  const std::vector<TensorCopy>& matrices, const std::string& path,
                                  std::optional<DType> dtype, const std::string& name) {
  ZEROTH_ASSIGN_OR_RETURN(const Base base, BaseOf(base_config));
  if (adapter.alpha == 0) {
    return InvalidArgument(weights.description(),
                           ": an adapter of alpha 0, which llama.cpp would use with scale 1");
  }
  if (adapter.dora) {
    return Unimplemented(
        weights.description(),
        ": a GGUF adapter has only the matrices A and B, and DoRA's magnitudes are none; "
        "write the merged model instead (--lora_export=merged)");
  }
  if (!adapter.saved.empty()) {
    return Unimplemented(weights.description(), ": \"", adapter.saved.front(),
                         "\" is stored in full beside the adapters, and a GGUF adapter has only "
                         "the matrices A and B; write the merged model instead");
  }
  std::vector<TensorCopy> copies;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const bool is_a = i % 2 == 0;
    auto renamed = GgufNameOf(base.naming, absl::StrCat(adapter.layers.at(i / 2), kWeight));
    if (renamed.ok() && renamed->has_value()) {
      absl::StrAppend(&(*renamed)->name, is_a ? kGgufLoraA : kGgufLoraB);
      (*renamed)->layout = LayoutOfLoraMatrix((*renamed)->layout, is_a);
    }
    ZEROTH_ASSIGN_OR_RETURN(std::optional<TensorCopy> copy,
                            GgufCopyOf(weights, matrices[i].from, renamed, base.division,
                                       /*to_gguf=*/true, dtype));
    if (!copy) {
      return Unimplemented(weights.description(), ": adapts \"", adapter.layers.at(i / 2),
                           "\", which a GGUF file of this model does not have; write a PEFT "
                           "adapter instead, or train without this layer");
    }
    // A model that stores its weights transposed (GPT-2) may also store A and B transposed; their
    // rows keep their order.
    if (matrices[i].relayout != Relayout::kNone) copy->relayout = matrices[i].relayout;
    copies.push_back(*std::move(copy));
  }
  SortAsInGguf(&copies);
  GgufMetadata metadata;
  metadata.SetString(kTypeKey, kAdapter);
  metadata.SetString(kArchitectureKey, base.architecture);
  metadata.SetString("general.name", name);
  metadata.SetString(kAdapterTypeKey, kLora);
  // llama.cpp always divides alpha by the rank.
  const double alpha = adapter.scale() * static_cast<double>(adapter.rank);
  metadata.SetFloat(kAlphaKey, static_cast<float>(alpha));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<TensorDeclaration> tensors,
                          DeclareCopies(weights, copies));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<TensorFileWriter> writer,
                          GgufWriter::Create(path, metadata, tensors));
  ZEROTH_RETURN_IF_ERROR(CopyTensors(
      weights, copies, [&](absl::string_view to, int64_t begin, absl::Span<const float> values) {
        return writer->Write(to, begin, values);
      }));
  return writer->Finish();
}

absl::Status ConvertGgufToAdapter(const GgufFile& file, const HfConfig& base_config,
                                  const std::string& base_path, const std::string& directory,
                                  HfConvertOptions options) {
  ZEROTH_ASSIGN_OR_RETURN(const Base base, BaseOf(base_config));
  ZEROTH_RETURN_IF_ERROR(CheckAdapter(file, base));
  PeftAdapter adapter;
  adapter.base_model = base_path;
  // How many of A and B each layer has.
  std::map<std::string, int> layers;
  std::vector<TensorCopy> copies;
  for (const std::string& name : file.names()) {
    absl::string_view weight = name;
    const bool is_a = absl::ConsumeSuffix(&weight, kGgufLoraA);
    if ((!is_a && !absl::ConsumeSuffix(&weight, kGgufLoraB)) || !absl::EndsWith(weight, kWeight)) {
      return InvalidArgument(file.description(), ": tensor ", EscapeForMessage(name),
                             " is not A or B of an adapter of a matrix, expected NAME.weight",
                             kGgufLoraA, " or NAME.weight", kGgufLoraB);
    }
    ZEROTH_RETURN_IF_ERROR(SetRank(file, name, is_a, &adapter.rank));
    int64_t pieces = 1;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      auto renamed = HfNameOf(base.naming, weight, piece);
      if (renamed.ok() && !renamed->has_value()) continue;
      std::string layer;
      if (renamed.ok()) {
        if ((*renamed)->expert)
          pieces = std::min(base.division.experts, file.Find(name)->shape.dim(0));
        if ((*renamed)->layout == GgufLayout::kTransposed) adapter.fan_in_fan_out = true;
        layer = std::string(absl::StripSuffix((*renamed)->name, kWeight));
        (*renamed)->name = is_a ? PeftNameOfA(layer) : PeftNameOfB(layer);
        (*renamed)->layout = LayoutOfLoraMatrix((*renamed)->layout, is_a);
      }
      ZEROTH_ASSIGN_OR_RETURN(std::optional<TensorCopy> copy,
                              GgufCopyOf(file, name, renamed, base.division, /*to_gguf=*/false,
                                         /*dtype=*/std::nullopt));
      ++layers[layer];
      copies.push_back(*std::move(copy));
    }
  }
  for (const auto& [layer, matrices] : layers) {
    if (matrices != 2) {
      return InvalidArgument(file.description(), ": layer ", EscapeForMessage(layer), " has ",
                             matrices, " of the two matrices, A and B, of an adapter");
    }
    adapter.layers.push_back(layer);
  }
  ZEROTH_RETURN_IF_ERROR(CheckAdapterLayers(base_config, adapter.layers));
  ZEROTH_ASSIGN_OR_RETURN(adapter.alpha, file.metadata().GetDoubleOr(kAlphaKey, 0.0));
  if (adapter.alpha == 0) adapter.alpha = static_cast<double>(adapter.rank);
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, PeftAdapterConfig(adapter));
  options.directory.kind = HfDirectoryKind::kAdapter;
  return WriteHfDirectory(file, config, std::move(copies), /*tokenizer_files=*/{}, directory,
                          options);
}

}  // namespace zeroth
