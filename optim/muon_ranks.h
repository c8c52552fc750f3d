// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_MUON_RANKS_H_
#define ZEROTH_OPTIM_MUON_RANKS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// The ranks among which Muon's matrices are dealt out: the owners of pieces, copy after copy. Where
// tensor ranks have a part of each matrix, its owners are those of all parts, part after part.
struct MuonRanks {
  const MeshView* view = nullptr;
  int parts = 1;
  int owners = 1;
  int owner = 0;  // this rank
  int copies = 1;
  int copy = 0;
  Communicator* owners_group = nullptr;  // in the order of their pieces
  Communicator* copies_group = nullptr;  // of this rank's piece

  // The owner's place among those of its part.
  int PlaceInPart(int owner_of_all) const { return owner_of_all % (owners / parts); }
};

// Of the unit that has `parameter`. Collective, as Mesh::Group.
absl::StatusOr<MuonRanks> MuonRanksOf(Mesh& mesh, const Unit& unit, const Parameter& parameter);
// Unimplemented for a matrix that has other ranks, or parts of different sizes.
absl::Status ExpectRanks(const MuonRanks& ranks, const Mesh& mesh, const Unit& unit,
                         const Parameter& parameter);

// A divided matrix, fp32 [numel], from its parts one after the other, or these from it. Enqueued.
absl::StatusOr<Tensor> JoinParts(Kernels& kernels, const Parameter& parameter, const Tensor& parts);
absl::StatusOr<Tensor> SplitIntoParts(Kernels& kernels, const Parameter& parameter,
                                      const Tensor& whole);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_MUON_RANKS_H_
