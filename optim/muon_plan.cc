// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/muon_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/optim/parameter_group.h"

namespace zeroth {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Returns the widths, along the outputs, of the blocks that are orthogonalised separately.
std::vector<int64_t> WidthsOf(const MatrixStructure& structure, int64_t outputs,
                              const MuonOptions& options) {
  if (options.per_head && structure.head_dim > 0 && outputs % structure.head_dim == 0) {
    return std::vector<int64_t>(static_cast<size_t>(outputs / structure.head_dim),
                                structure.head_dim);
  }
  const std::vector<int64_t>& parts = structure.parts;
  const bool splits = (options.split_qkv || options.per_head) &&
                      std::accumulate(parts.begin(), parts.end(), int64_t{0}) == outputs;
  return splits ? parts : std::vector<int64_t>{outputs};
}

float ScaleOf(int64_t inputs, int64_t outputs, MuonScale scale) {
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  return static_cast<float>(scale == MuonScale::kSpectral ? std::sqrt(std::max(1.0, out / in))
                                                          : 0.2 * std::sqrt(std::max(in, out)));
}

// Returns rows or columns [begin, begin + size) of a matrix.
Matrix Range(const Tensor& matrix, int dim, int64_t begin, int64_t size) {
  if (dim == 1) return Matrix(matrix).Columns(begin, size);
  const int64_t columns = matrix.dim(1);
  return matrix.View(begin * columns, Shape({size, columns}));
}

// Copies every block between its place in a divided matrix and its place in the parts.
absl::StatusOr<Tensor> CopyParts(Kernels& kernels, const Parameter& parameter, const Tensor& from,
                                 bool joins) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor to, Tensor::Empty(from.device(), from.shape(), DType::kFloat32,
                                                   MemoryCategory::kCommunication));
  const Tensor& parts = joins ? from : to;
  const ParameterPart& part = *parameter.part();
  std::vector<int64_t> sections = part.sections;
  if (sections.empty()) sections = {parameter.global_shape().dim(part.dim)};
  const Tensor matrix = (joins ? to : from).Reshape(parameter.global_shape());
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
  return to;
}

}  // namespace

double MuonMatrix::cost() const {
  double cost = 0;
  for (const MuonPart& part : parts) {
    const auto small = static_cast<double>(std::min(part.rows, part.columns));
    cost += small * small * static_cast<double>(std::max(part.rows, part.columns));
  }
  return cost;
}

absl::Status ValidateMuonOptions(const MuonOptions& options) {
  const bool is_rate = std::isfinite(options.lr) && options.lr >= 0;
  if (is_rate && options.momentum >= 0 && options.momentum < 1 && options.ns_steps >= 1) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "Muon: lr = ", options.lr, ", momentum = ", options.momentum,
      ", ns_steps = ", options.ns_steps,
      "; expected a finite lr of at least 0, momentum in [0, 1), and at least one step");
}

bool UsesMuon(const Parameter& parameter, const MuonOptions& options) {
  const int rank = parameter.shape().rank();
  if ((rank != 2 && rank != 3) || parameter.numel() == 0) return false;
  // A convolution of each channel alone is a vector for each, not a stack of matrices.
  if (rank == 3 && parameter.shape().dim(1) == 1) return false;
  if (!options.patterns.empty()) {
    return std::any_of(
        options.patterns.begin(), options.patterns.end(),
        [&](const std::string& pattern) { return MatchesPattern(pattern, parameter.name()); });
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(parameter.name(), '.');
  return std::any_of(parts.begin(), parts.end(), IsNumber);
}

std::vector<MuonMatrix> MatricesOf(const Parameter& parameter, const MuonOptions& options) {
  const Shape& shape = parameter.global_shape();
  const int rank = shape.rank();
  MuonMatrix matrix;
  matrix.rows = shape.dim(rank - 2);
  matrix.columns = shape.dim(rank - 1);
  const bool along_columns = parameter.matrix().outputs_are_columns;
  const int64_t outputs = along_columns ? matrix.columns : matrix.rows;
  const int64_t inputs = along_columns ? matrix.rows : matrix.columns;
  int64_t at = 0;
  for (const int64_t width : WidthsOf(parameter.matrix(), outputs, options)) {
    const float scale = ScaleOf(inputs, width, options.scale);
    matrix.parts.push_back(along_columns ? MuonPart{0, at, inputs, width, scale}
                                         : MuonPart{at, 0, width, inputs, scale});
    at += width;
  }
  std::vector<MuonMatrix> matrices;
  for (; matrix.begin < parameter.global_numel(); matrix.begin += matrix.numel()) {
    matrices.push_back(matrix);
  }
  return matrices;
}

std::vector<std::vector<int>> AssignByCost(absl::Span<const double> costs, int workers) {
  std::vector<int> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return costs[static_cast<size_t>(a)] > costs[static_cast<size_t>(b)];
  });
  std::vector<std::vector<int>> assigned(static_cast<size_t>(workers));
  std::vector<double> loads(static_cast<size_t>(workers));
  for (const int matrix : order) {
    const auto least =
        static_cast<size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    loads[least] += costs[static_cast<size_t>(matrix)];
    assigned[least].push_back(matrix);
  }
  return assigned;
}

int PartsOf(const Parameter& parameter) {
  return parameter.part().has_value() ? parameter.part()->count : 1;
}

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
  // Both groups are in the order of the owners' pieces.
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
  const int parts = PartsOf(parameter);
  const bool is_matrix = parts == 1 || parameter.global_shape().rank() == 2;
  if (&unit.mesh() == ranks.view && (parts == 1 || parts == ranks.parts) && is_matrix &&
      ranks.view->data_parallel_size() * ranks.parts == world &&
      parameter.numel() * parts == parameter.global_numel()) {
    return absl::OkStatus();
  }
  return Unimplemented(
      "Muon: parameter '", parameter.name(),
      "' is not on all ranks, or is divided among other ranks than the model's divided matrices, "
      "or not into equal parts; expected units without UnitSpec::axes, and at least one matrix "
      "that is divided among tensor ranks if there are any");
}

absl::StatusOr<Tensor> JoinParts(Kernels& kernels, const Parameter& parameter, int parts,
                                 const Tensor& from) {
  if (PartsOf(parameter) == 1) return from.View(0, Shape({from.numel() / parts}));
  return CopyParts(kernels, parameter, from, /*joins=*/true);
}

absl::StatusOr<Tensor> SplitIntoParts(Kernels& kernels, const Parameter& parameter, int parts,
                                      const Tensor& matrix) {
  if (PartsOf(parameter) == parts) return CopyParts(kernels, parameter, matrix, /*joins=*/false);
  const Shape row({1, matrix.numel()});
  ZEROTH_ASSIGN_OR_RETURN(Tensor copies,
                          Tensor::Empty(matrix.device(), Shape({parts * matrix.numel()}),
                                        DType::kFloat32, MemoryCategory::kCommunication));
  for (int i = 0; i < parts; ++i) {
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(kernels, {.op = BasicOp::kScale,
                                                    .a = matrix.Reshape(row),
                                                    .out = copies.View(i * matrix.numel(), row)}));
  }
  return copies;
}

}  // namespace zeroth
