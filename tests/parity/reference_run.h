// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The reference runs of tests/testdata, and the same training done by this project.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {

// Values of every parameter by name.
using NamedValues = std::map<std::string, std::vector<float>>;

// Flat indices of elements by parameter.
using NamedIndices = std::map<std::string, std::vector<size_t>>;

// The results of a training run that are compared.
struct TrainingRecord {
  std::vector<double> losses;      // of each step
  std::vector<double> grad_norms;  // before clipping
  NamedValues first_gradients;     // of the mean loss of step 0's global batch
  NamedValues final_weights;
  std::vector<bool> overflowed;  // of each step, the same on every rank
};

// The run that was recorded with Hugging Face transformers in float64, and torch AdamW, or Muon for
// the matrices of the blocks.
absl::StatusOr<TrainingRecord> LoadReference(const std::string& model,
                                             const std::string& optimizer = "adamw");
// The elements of its final weights that rounding decides, not the mathematics: the README of
// tests/testdata says how they were found.
absl::StatusOr<NamedIndices> LoadSensitive(const std::string& model);

struct RunSetup {
  std::string model;       // a folder of tests/testdata
  std::string model_type;  // empty: that of the folder's config.json
  std::string strategy;
  std::string device = "cpu";
  MixedPrecision precision;
  DType state_dtype = DType::kFloat32;  // of moments
  std::string optimizer = "adamw";      // or "muon", as its reference
  int world_size = 1;
  int shard_size = 0;
  TensorParallelOptions tensor;
  bool prefetch = true;
  bool reshard_after_forward = true;
  int64_t min_wrap_numel = 0;   // 0: a unit per block
  int64_t min_shard_numel = 0;  // 0: everything is sharded
  int64_t rows_per_rank = 0;    // 0: the reference's global batch divided by the world size
  int64_t steps = 0;            // 0: as many as the reference
  int64_t micro_batches = 1;    // of a step; they divide a rank's rows
  bool sync_every_micro_batch = true;
  double loss_scale = 0;  // 0: none
  bool fp32_norms = false;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  bool shard_optimizer_over_world = false;
  // Above 0: micro-batches of the global batch, see TrainerOptions; micro_batches follows from it.
  int64_t deterministic_batch = 0;
  LayoutKind layout = LayoutKind::kFlat;
  OffloadOptions offload;
  int threads = 1;                // of each rank
  bool bits_of_any_team = false;  // see DeviceOptions

  // Data-parallel ranks.
  int data_ranks() const { return world_size / tensor.size; }
  std::string ToString() const;
};

// Trains from the reference's initial weights on its tokens with its hyper-parameters, on real
// ranks.
absl::StatusOr<TrainingRecord> Train(const RunSetup& setup);

}  // namespace zeroth
