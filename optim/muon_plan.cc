// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/muon_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "zeroth/optim/parameter_group.h"

namespace zeroth {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Widths of the blocks, side by side along the outputs, that are orthogonalised one by one.
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
  return absl::InvalidArgumentError(absl::StrCat(
      "Muon: lr = ", options.lr, ", momentum = ", options.momentum,
      ", ns_steps = ", options.ns_steps,
      "; expected a finite lr of at least 0, momentum in [0, 1), and at least one step"));
}

bool IsMuons(const Parameter& parameter, const MuonOptions& options) {
  const int rank = parameter.shape().rank();
  if ((rank != 2 && rank != 3) || parameter.numel() == 0) return false;
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

}  // namespace zeroth
