// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plans Muon: which matrices it updates, their parts, and which rank computes which matrix.

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
  float scale = 1;  // multiplies its update
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

// Returns true if Muon updates the parameter, and not AdamW. options.patterns decide. Without
// patterns, Muon updates the matrices of blocks: parameters with a number among the parts of their
// names, and with two dimensions, or three (a matrix for each index of the first, as stacked
// experts; but not [channels, 1, taps], a convolution of each channel). How the model is divided
// into units does not matter.
bool UsesMuon(const Parameter& parameter, const MuonOptions& options);

// Returns the matrices of a parameter that Muon updates, divided into parts by Parameter::matrix if
// the options ask for that.
std::vector<MuonMatrix> MatricesOf(const Parameter& parameter, const MuonOptions& options);

// Returns the indices of each worker's matrices, the most expensive first. Each matrix, in this
// order, goes to the worker with the least work so far ("longest processing time first", Graham,
// 1969). The same on every rank.
std::vector<std::vector<int>> AssignByCost(absl::Span<const double> costs, int workers);

// The ranks to which Muon's matrices are assigned: the owners of pieces, copy after copy. If tensor
// ranks hold parts of matrices, the owners of a matrix are those of all its parts, part after part.
// Other matrices, which every tensor rank holds whole, then have the same ranks as owners, with
// equal values: a router, or LoRA's A of a layer that is divided by its outputs.
struct MuonRanks {
  const MeshView* view = nullptr;
  int parts = 1;
  int owners = 1;
  int owner = 0;  // this rank
  int copies = 1;
  int copy = 0;
  Communicator* owners_group = nullptr;  // the owners, in the order of their pieces
  Communicator* copies_group = nullptr;  // the ranks that hold copies of this rank's piece

  // Returns the index of an owner among the owners of its part.
  int IndexInPart(int owner_of_all) const { return owner_of_all % (owners / parts); }
};

// Returns the number of tensor ranks among which the parameter is divided, 1 if it is whole.
int PartsOf(const Parameter& parameter);

// Returns the ranks for `parameter` of `unit`. Collective, like Mesh::Group.
absl::StatusOr<MuonRanks> MuonRanksOf(Mesh& mesh, const Unit& unit, const Parameter& parameter);
// Returns Unimplemented if the ranks that hold `parameter` differ from `ranks`, or its parts are
// not of equal size.
absl::Status ExpectRanks(const MuonRanks& ranks, const Mesh& mesh, const Unit& unit,
                         const Parameter& parameter);

// Returns a matrix, fp32 [numel], from what its owners on `parts` tensor ranks hold, end to end in
// `from`: its parts or, if it is not divided, `parts` copies of it. Enqueued.
absl::StatusOr<Tensor> JoinParts(Kernels& kernels, const Parameter& parameter, int parts,
                                 const Tensor& from);
// The reverse: returns what the owners hold of the matrix, end to end. Enqueued.
absl::StatusOr<Tensor> SplitIntoParts(Kernels& kernels, const Parameter& parameter, int parts,
                                      const Tensor& matrix);

}  // namespace zeroth
