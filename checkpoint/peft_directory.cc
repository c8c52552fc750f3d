// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/peft_directory.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/safetensors.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kConfig[] = "adapter_config.json";
constexpr char kWeights[] = "adapter_model.safetensors";
constexpr char kPrefix[] = "base_model.model.";

// A is [rank, in], B is [out, rank].
absl::Status CheckHalf(const WeightsSource& weights, const std::string& name, int rank_dim,
                       int64_t rank) {
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(name));
  if (shape.rank() == 2 && shape.dim(rank_dim) == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      weights.description(), ": tensor \"", name, "\" has shape ", shape.ToString(), ", expected ",
      rank_dim == 0 ? absl::StrCat("[", rank, ", in]") : absl::StrCat("[out, ", rank, "]")));
}

absl::StatusOr<std::vector<std::string>> LayersOf(const WeightsSource& weights, int64_t rank) {
  std::set<std::string> layers;
  for (const std::string& name : weights.names()) {
    absl::string_view layer = name;
    const bool is_half =
        absl::ConsumePrefix(&layer, kPrefix) && (absl::ConsumeSuffix(&layer, ".lora_A.weight") ||
                                                 absl::ConsumeSuffix(&layer, ".lora_B.weight"));
    if (!is_half) {
      return absl::InvalidArgumentError(absl::StrCat(weights.description(), ": tensor \"", name,
                                                     "\" is no half of an adapter of a linear "
                                                     "layer; expected ",
                                                     PeftNameOfA("LAYER"), " and ",
                                                     PeftNameOfB("LAYER")));
    }
    layers.emplace(layer);
  }
  for (const std::string& layer : layers) {
    ZEROTH_RETURN_IF_ERROR(CheckHalf(weights, PeftNameOfA(layer), 0, rank));
    ZEROTH_RETURN_IF_ERROR(CheckHalf(weights, PeftNameOfB(layer), 1, rank));
  }
  return std::vector<std::string>(layers.begin(), layers.end());
}

}  // namespace

bool IsPeftDirectory(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(path) / kConfig, error) &&
         !std::filesystem::exists(std::filesystem::path(path) / "config.json", error);
}

absl::StatusOr<PeftDirectory> PeftDirectory::Open(const std::string& path) {
  const std::filesystem::path base(path);
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, HfConfig::Load((base / kConfig).string()));
  ZEROTH_ASSIGN_OR_RETURN(PeftAdapter adapter, ParsePeftAdapter(config));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const WeightsSource> weights,
                          SafetensorsFile::Open((base / kWeights).string()));
  ZEROTH_ASSIGN_OR_RETURN(adapter.layers, LayersOf(*weights, adapter.rank));
  return PeftDirectory(path, std::move(adapter), std::move(weights));
}

}  // namespace zeroth
