// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/muon_ranks.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"

namespace zeroth {
namespace {

int PartsOf(const Parameter& parameter) {
  return parameter.part().has_value() ? parameter.part()->count : 1;
}

// Rows or columns [begin, begin + size) of a matrix.
Matrix Range(const Tensor& matrix, int dim, int64_t begin, int64_t size) {
  if (dim == 1) return Matrix(matrix).Columns(begin, size);
  const int64_t columns = matrix.dim(1);
  return matrix.View(begin * columns, Shape({size, columns}));
}

// Copies every block of `whole`, fp32 [numel], from or to its place in `parts`.
absl::Status CopyBlocks(Kernels& kernels, const Parameter& parameter, const Tensor& parts,
                        const Tensor& whole, bool joins) {
  const ParameterPart& part = *parameter.part();
  std::vector<int64_t> sections = part.sections;
  if (sections.empty()) sections = {parameter.global_shape().dim(part.dim)};
  const Tensor matrix = whole.Reshape(parameter.global_shape());
  for (int i = 0; i < part.count; ++i) {
    const Tensor one = parts.View(i * parameter.numel(), parameter.shape());
    int64_t section_begin = 0;
    int64_t begin = 0;
    for (const int64_t section : sections) {
      const int64_t share = section / part.count;
      const Matrix there = Range(matrix, part.dim, section_begin + i * share, share);
      const Matrix here = Range(one, part.dim, begin, share);
      ZEROTH_RETURN_IF_ERROR(kernels::Basic(
          kernels,
          {.op = BasicOp::kScale, .a = joins ? here : there, .out = joins ? there : here}));
      section_begin += section;
      begin += share;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> LikeIt(const Tensor& x) {
  return Tensor::Empty(x.device(), x.shape(), DType::kFloat32, MemoryCategory::kCommunication);
}

}  // namespace

absl::StatusOr<MuonRanks> MuonRanksOf(Mesh& mesh, const Unit& unit, const Parameter& parameter) {
  const MeshView& view = unit.mesh();
  const bool spans = view.owners_span_groups();
  MuonRanks ranks;
  ranks.view = &view;
  ranks.parts = PartsOf(parameter);
  ranks.owners = view.owner_count() * ranks.parts;
  ranks.owner = view.owner_index();
  ranks.copies = spans ? 1 : view.replicate_size();
  ranks.copy = spans ? 0 : view.replicate_index();
  // Both are in the order of the owners' pieces.
  ranks.owners_group = spans ? &view.owner_gather() : &view.shard_reduce();
  ranks.copies_group = &view.replicate_reduce();
  if (ranks.parts == 1) return ranks;
  ranks.owner += parameter.part()->index * view.owner_count();
  ZEROTH_ASSIGN_OR_RETURN(Mesh::Axes axes, mesh.Find({parameter.part()->axis}));
  axes.insert(axes.end(), view.owner_axes().begin(), view.owner_axes().end());
  ZEROTH_ASSIGN_OR_RETURN(ranks.owners_group, mesh.Group(axes, Traffic::kReduce));
  return ranks;
}

absl::Status ExpectRanks(const MuonRanks& ranks, const Mesh& mesh, const Unit& unit,
                         const Parameter& parameter) {
  int world = 1;
  for (const MeshAxis& axis : mesh.axes()) world *= axis.size;
  const bool is_matrix = ranks.parts == 1 || parameter.global_shape().rank() == 2;
  if (&unit.mesh() == ranks.view && PartsOf(parameter) == ranks.parts && is_matrix &&
      ranks.view->data_size() * ranks.parts == world &&
      parameter.numel() * ranks.parts == parameter.global_numel()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "Muon: parameter '", parameter.name(),
      "' is not on all ranks, or is divided among other ranks than the matrices before it, or not "
      "into equal parts; expected units without axes of their own, and matrices of which either "
      "all or none are divided among tensor ranks"));
}

absl::StatusOr<Tensor> JoinParts(Kernels& kernels, const Parameter& parameter,
                                 const Tensor& parts) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor whole, LikeIt(parts));
  ZEROTH_RETURN_IF_ERROR(CopyBlocks(kernels, parameter, parts, whole, /*joins=*/true));
  return whole;
}

absl::StatusOr<Tensor> SplitIntoParts(Kernels& kernels, const Parameter& parameter,
                                      const Tensor& whole) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor parts, LikeIt(whole));
  ZEROTH_RETURN_IF_ERROR(CopyBlocks(kernels, parameter, parts, whole, /*joins=*/false));
  return parts;
}

}  // namespace zeroth
