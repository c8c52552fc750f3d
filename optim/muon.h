// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/muon/muon.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/device_rows.h"
#include "zeroth/optim/muon_plan.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Muon (Jordan et al., 2024) for the matrices that UsesMuon names, AdamW for all other parameters.
// Updates a matrix with the reduced and clipped gradient g, in fp32:
//   m = momentum m + (1 - momentum) g;  u = momentum m + (1 - momentum) g
//   param -= lr * weight_decay * param + lr * Orthogonalise(u)
// The momentum is sharded as AdamW's moments are. An update needs whole matrices, and of the ranks
// that hold a copy or a piece of a matrix exactly one computes it. AssignByCost assigns the
// matrices to ranks, which process them in rounds, one matrix each. In a round, one all-to-all
// sends the ranks' pieces of u to the rank that computes the matrix, and another brings back the
// pieces of the result, which are then broadcast among replicas. The next round's pieces are
// exchanged while this round's matmuls run. One rank computes a matrix in one order, so its bits do
// not depend on how it is sharded. docs/optimizers.md has the collectives. Used by one rank's
// thread only.
class Muon : public Optimizer {
 public:
  // Returns the errors of AdamW::Create and ValidateMuonOptions. InvalidArgument if no matrix is
  // Muon's, or none has the parts that the options ask for, or if only AdamW's lr is 0.
  // Unimplemented for matrices whose masters are not fp32, for matrices that are replicated because
  // they are small (ShardingOptions::min_shard_numel), and for offloaded state. `sharding` and
  // `kernels` outlive the optimizer.
  static absl::StatusOr<std::unique_ptr<Muon>> Create(Sharding& sharding, Kernels& kernels,
                                                      const OptimizerOptions& options,
                                                      absl::Span<const ParameterGroup> groups = {});

  absl::Status Update(const Tensor& grad_factor = Tensor()) override;
  // AdamW's states for the parameters that it updates, and "momentum" for each matrix that this
  // rank has a piece of.
  std::vector<ShardState> states() const override;

  // The matrices that this rank computes in a step, as "name" or, if a parameter has several,
  // "name[i]".
  std::vector<std::string> own_matrices() const;

 protected:
  absl::Status PrepareStep(int64_t step, double lr, double grad_scale) override;

 private:
  // A parameter with one matrix or several.
  struct Weight {
    Unit* unit = nullptr;
    int index = 0;  // in the unit
    ShardLayout::Piece piece;
    Tensor momentum;  // [piece.numel()]

    Parameter& parameter() const { return unit->parameter(index); }
  };
  struct Matrix {
    size_t weight = 0;
    std::string name;
    MuonMatrix matrix;
  };
  struct Settings {
    double lr_scale = 1;
    double weight_decay = 0;
  };
  struct Round;
  // This rank's piece of a matrix that the `owner` of `copy` computes.
  struct HeldPiece {
    int copy = 0;
    int owner = 0;
    const Weight* weight = nullptr;
    ShardLayout::Piece piece;  // of the parameter
    int64_t at = 0;            // its offset among the pieces that the same copy computes
  };

  Muon(Sharding& sharding, Kernels& kernels, const OptimizerOptions& options);
  absl::Status SetGroups(absl::Span<const ParameterGroup> groups);
  // Returns true for a parameter of the unit that Muon updates.
  bool IsOwn(const Unit& unit, int index) const;
  absl::Status FindRanks();
  absl::Status AddWeights();
  // Returns a worker's number among the ranks of ranks_, copy by copy.
  size_t Worker(int copy, int owner) const {
    return static_cast<size_t>(copy * ranks_.owners + owner);
  }
  // Assigns the matrices that now require gradients: returns each worker's indices.
  std::vector<std::vector<int>> Assign() const;
  // Returns the piece of a matrix that `owner` holds, relative to its part of the parameter.
  ShardLayout::Piece PieceOf(const Matrix& matrix, int owner) const;
  // Returns the matrix that this rank computes in a round; nullptr if there is none.
  const Matrix* OwnMatrix(const Round& round) const;
  // Returns this rank's non-empty pieces of the round's matrices, by copy and owner.
  std::vector<HeldPiece> HeldPieces(const Round& round) const;
  static int64_t HeldNumel(absl::Span<const HeldPiece> held, int copy);
  absl::StatusOr<Tensor> ExchangeBuffer(int64_t numel) const;
  MuonScalars ScalarsOf(const Weight& weight, const Tensor& grad_factor) const;

  absl::Status RunRounds(std::vector<Round>& rounds, const Tensor& grad_factor);
  absl::Status Send(Round& round, const Tensor& grad_factor);
  absl::Status Compute(Round& round);
  absl::Status Return(Round& round);
  absl::Status Apply(Round& round, const Tensor& grad_factor);

  Kernels& kernels_;
  const OptimizerOptions options_;
  const DType precision_;
  std::unique_ptr<AdamW> adamw_;
  std::vector<Weight> weights_;
  std::vector<Matrix> matrices_;
  std::vector<Settings> settings_;             // for parameters without a group, then by group
  DeviceRows<MuonCoefficients> coefficients_;  // by AdamW::RowOf
  MuonRanks ranks_;
  std::unique_ptr<Stream> exchange_;  // nullptr if this rank exchanges nothing
};

}  // namespace zeroth
