// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which matrices Muon updates, what they are made of, and which rank computes which.

#ifndef ZEROTH_OPTIM_MUON_PLAN_H_
#define ZEROTH_OPTIM_MUON_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/optim/optimizer.h"

namespace zeroth {

// A block of a stored matrix that is orthogonalised by itself.
struct MuonPart {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1;  // of its update
};

// A matrix as one rank computes it: a range of a parameter, [rows, columns].
struct MuonMatrix {
  int64_t begin = 0;  // its first element in the undivided parameter
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<MuonPart> parts;

  int64_t numel() const { return rows * columns; }
  // Of its products, in proportion: the sum over parts of n^2 m, n the smaller side.
  double cost() const;
};

// InvalidArgument names the value that is out of its range.
absl::Status ValidateMuonOptions(const MuonOptions& options);

// Whether Muon updates it, and not AdamW. By the patterns; without any, if it is a matrix of a
// block: it has two dimensions, or three (a matrix for each index of the first, as stacked
// experts), and a number among the parts of its name. That does not depend on how the model is
// sharded into units.
bool IsMuons(const Parameter& parameter, const MuonOptions& options);

// The matrices of such a parameter. Their parts follow Parameter::matrix where the options ask for
// it.
std::vector<MuonMatrix> MatricesOf(const Parameter& parameter, const MuonOptions& options);

// For each worker, the indices of its matrices, the most expensive first: each goes, in this order,
// to the worker that has least to do so far ("longest processing time first", Graham, 1969). The
// same on every rank.
std::vector<std::vector<int>> AssignByCost(absl::Span<const double> costs, int workers);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_MUON_PLAN_H_
