// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_copies.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

bool IsOfLinearAttention(GgufLayout layout) {
  switch (layout) {
    case GgufLayout::kValueRows:
    case GgufLayout::kLastValueRows:
    case GgufLayout::kConvKernel:
    case GgufLayout::kALog:
    case GgufLayout::kValueColumns:
      return true;
    default:
      return false;
  }
}

// Puts the value heads from Hugging Face's grouped order into GGUF's tiled order, or back.
void SetRegrouping(GgufLayout layout, const GgufLinearDivision& division, bool to_gguf,
                   TensorCopy* copy) {
  if (layout == GgufLayout::kALog) {
    copy->mapping = to_gguf ? ElementMapping::kMinusExp : ElementMapping::kLogOfMinus;
  }
  if (layout == GgufLayout::kConvKernel) {
    copy->reshaping = to_gguf ? Reshaping::kDropMiddle : Reshaping::kInsertMiddle;
  }
  // With one value head for each key head, both orders are the same.
  if (division.value_heads == division.key_heads) return;
  copy->relayout =
      layout == GgufLayout::kValueColumns ? Relayout::kRegroupColumns : Relayout::kRegroupRows;
  copy->heads = division.value_heads;
  copy->groups = to_gguf ? division.key_heads : division.value_heads / division.key_heads;
  if (layout == GgufLayout::kLastValueRows || layout == GgufLayout::kConvKernel) {
    copy->unmoved = 2 * division.key_heads * division.key_dim;
  }
}

// Sets a copy's relayout. `to_gguf` is the direction.
void SetRelayout(GgufLayout layout, const GgufDivision& division, bool to_gguf, TensorCopy* copy) {
  if (layout == GgufLayout::kSame) return;
  if (layout == GgufLayout::kPlusOne) {
    copy->added = to_gguf ? 1.0f : -1.0f;
    return;
  }
  if (layout == GgufLayout::kTransposed) {
    copy->relayout = Relayout::kTranspose;
    return;
  }
  if (IsOfLinearAttention(layout)) {
    SetRegrouping(layout, division.linear, to_gguf, copy);
    return;
  }
  copy->relayout = to_gguf ? Relayout::kInterleaveHalves : Relayout::kSeparateHalves;
  copy->heads = layout == GgufLayout::kQueryRows ? division.query_heads : division.key_heads;
}

// Makes a copy one of the `experts` that a GGUF tensor stacks.
absl::Status SetStacking(const WeightsSource& source, std::optional<int64_t> expert,
                         int64_t experts, bool to_gguf, TensorCopy* copy) {
  if (!expert) return absl::OkStatus();
  if (*expert >= experts) {
    return InvalidArgument(source.description(), ": tensor \"", copy->from, "\" is of expert ",
                           *expert, ", expected one of the ", experts,
                           " that the configuration has, from 0");
  }
  copy->stacking = to_gguf ? Stacking::kInto : Stacking::kOutOf;
  copy->place = *expert;
  copy->places = experts;
  return absl::OkStatus();
}

// Sort key for the usual order in files: embeddings, blocks by number, the rest. The experts of one
// tensor follow each other.
std::tuple<int, int64_t, std::string, int64_t> FileOrder(const TensorCopy& copy) {
  const int64_t block = GgufBlockNumber(copy.to);
  if (block < 0) return {absl::StrContains(copy.to, "_embd") ? 0 : 2, 0, copy.to, 0};
  return {1, block, copy.to, copy.place};
}

}  // namespace

absl::StatusOr<std::optional<TensorCopy>> GgufCopyOf(
    const WeightsSource& source, const std::string& name,
    const absl::StatusOr<std::optional<GgufTensorName>>& renamed, const GgufDivision& division,
    bool to_gguf, std::optional<DType> dtype) {
  if (!renamed.ok()) return Annotate(renamed.status(), source.description());
  if (!renamed->has_value()) return std::nullopt;
  TensorCopy copy;
  copy.from = name;
  copy.to = (*renamed)->name;
  SetRelayout((*renamed)->layout, division, to_gguf, &copy);
  ZEROTH_RETURN_IF_ERROR(SetStacking(source, (*renamed)->expert, division.experts, to_gguf, &copy));
  ZEROTH_ASSIGN_OR_RETURN(copy.dtype, CopiedDType(source, name, dtype));
  if (to_gguf && ((*renamed)->always_float32 || source.Find(name)->shape.rank() < 2)) {
    copy.dtype = DType::kFloat32;
  }
  return copy;
}

void SortAsInGguf(std::vector<TensorCopy>* copies) {
  std::sort(copies->begin(), copies->end(),
            [](const TensorCopy& a, const TensorCopy& b) { return FileOrder(a) < FileOrder(b); });
}

}  // namespace zeroth
