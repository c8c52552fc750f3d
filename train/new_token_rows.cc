// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/new_token_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {
namespace {

absl::StatusOr<std::vector<float>> MeanRow(const WeightsSource& weights, const std::string& name,
                                           const Shape& shape) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t width = shape.dim(1);
  std::vector<double> sums(static_cast<size_t>(width));
  std::vector<float> piece(static_cast<size_t>(std::min(kPiece, shape.numel())));
  for (int64_t begin = 0; begin < shape.numel(); begin += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, shape.numel() - begin));
    const absl::Span<float> values = absl::MakeSpan(piece).first(size);
    ZEROTH_RETURN_IF_ERROR(weights.ReadElements(name, begin, values));
    for (size_t i = 0; i < size; ++i) {
      sums[static_cast<size_t>((begin + static_cast<int64_t>(i)) % width)] += values[i];
    }
  }
  std::vector<float> mean;
  for (const double sum : sums) {
    mean.push_back(static_cast<float>(sum / static_cast<double>(shape.dim(0))));
  }
  return mean;
}

}  // namespace

absl::StatusOr<NewTokenRows> NewTokenRows::Create(const WeightsSource& weights,
                                                  const LanguageModel& model) {
  NewTokenRows grown;
  const std::string head = model.head_weight().name();
  for (const Parameter* parameter : model.Parameters()) {
    const std::string& name = parameter->name();
    if (name != head && !IsTokenEmbedding(name)) continue;
    if (!parameter->requires_grad()) {
      return InvalidArgument(
          "--new_tokens with --lora_rank: \"", name,
          "\" is frozen, so that nothing would be learned about the new tokens; train the "
          "embedding and the head in full, as by --lora_modules_to_save=",
          model.head_weight().name() == "lm_head.weight" ? "embed_tokens,lm_head" : "embed_tokens");
    }
    const std::string stored = weights.StoredName(name);
    if (weights.Find(stored) == nullptr) continue;  // reported with all that is missing
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(stored));
    const Shape& own = parameter->global_shape();
    if (shape.rank() != 2 || shape.dim(0) < 1 || shape.dim(1) != own.dim(1) ||
        shape.dim(0) >= own.dim(0)) {
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(std::vector<float> mean, MeanRow(weights, stored, shape));
    grown.rows_[name] = {shape.numel(), std::move(mean)};
  }
  return grown;
}

bool NewTokenRows::Contains(absl::string_view parameter) const {
  return rows_.find(parameter) != rows_.end();
}

absl::Status NewTokenRows::Read(const WeightsSource& weights, const Parameter& parameter,
                                int64_t begin, absl::Span<float> out) const {
  const Rows& rows = rows_.find(parameter.name())->second;
  const int64_t size = static_cast<int64_t>(out.size());
  const int64_t stored = std::clamp<int64_t>(rows.stored - begin, 0, size);
  if (stored > 0) {
    ZEROTH_RETURN_IF_ERROR(weights.ReadElements(weights.StoredName(parameter.name()), begin,
                                                out.first(static_cast<size_t>(stored))));
  }
  const auto width = static_cast<int64_t>(rows.mean.size());
  for (int64_t i = stored; i < size; ++i) {
    out[static_cast<size_t>(i)] = rows.mean[static_cast<size_t>((begin + i) % width)];
  }
  return absl::OkStatus();
}

}  // namespace zeroth
