// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which matrices Muon updates, the parts that they consist of, and which rank computes which.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// A block of a stored matrix that is orthogonalised by itself.
struct MuonPart {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  float scale = 1;  // factor of its update
};

// A matrix as one rank computes it: a range of a parameter, [rows, columns].
struct MuonMatrix {
  int64_t begin = 0;  // its first element in the undivided parameter
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<MuonPart> parts;

  int64_t numel() const { return rows * columns; }
  // Proportional to the work of its matmuls: the sum over parts of n^2 m, n the smaller side.
  double cost() const;
};

// InvalidArgument names the value that is out of its range.
absl::Status ValidateMuonOptions(const MuonOptions& options);

// True if Muon updates the parameter, and not AdamW. The patterns decide. Without patterns, Muon's
// are the matrices of blocks: parameters with a number among the parts of their names, and with two
// dimensions, or three (a matrix for each index of the first, as stacked experts). How the model is
// divided into units does not matter.
bool IsMuons(const Parameter& parameter, const MuonOptions& options);

// The matrices of a parameter that is Muon's. Their parts follow Parameter::matrix if the options
// ask for that.
std::vector<MuonMatrix> MatricesOf(const Parameter& parameter, const MuonOptions& options);

// For each worker, the indices of its matrices, the most expensive first. In this order each matrix
// goes to the worker with the least work so far ("longest processing time first", Graham, 1969).
// The same on every rank.
std::vector<std::vector<int>> AssignByCost(absl::Span<const double> costs, int workers);

// The ranks to which Muon's matrices are assigned: the owners of pieces, copy after copy. If tensor
// ranks hold a part of each matrix, its owners are the owners of all parts, part after part.
struct MuonRanks {
  const MeshView* view = nullptr;
  int parts = 1;
  int owners = 1;
  int owner = 0;  // this rank
  int copies = 1;
  int copy = 0;
  Communicator* owners_group = nullptr;  // the owners, in the order of their pieces
  Communicator* copies_group = nullptr;  // the ranks that hold copies of this rank's piece

  // The place of an owner among the owners of its part.
  int PlaceInPart(int owner_of_all) const { return owner_of_all % (owners / parts); }
};

// Returns the ranks for `parameter` of `unit`. Collective, like Mesh::Group.
absl::StatusOr<MuonRanks> MuonRanksOf(Mesh& mesh, const Unit& unit, const Parameter& parameter);
// Unimplemented for a matrix that has other ranks, or parts of different sizes.
absl::Status ExpectRanks(const MuonRanks& ranks, const Mesh& mesh, const Unit& unit,
                         const Parameter& parameter);

// Makes a divided matrix, fp32 [numel], of its parts, which lie one after the other, if it `joins`
// them; otherwise makes the parts of the matrix. Enqueued.
absl::StatusOr<Tensor> CopyParts(Kernels& kernels, const Parameter& parameter, const Tensor& from,
                                 bool joins);

}  // namespace zeroth
