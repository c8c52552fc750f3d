// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Predicts the memory of a rank's training state by the formula of docs/memory.md. Tests compare it
// with the allocator's account.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"

namespace zeroth {

// Elements of parameters, without padding. All blocks are alike; for a mixture with some dense
// layers the formula is an estimate.
struct ModelNumel {
  double total = 0;
  double root = 0;      // of the root unit
  double block = 0;     // of a block, the largest other unit, without `nested`
  double matrices = 0;  // of the matrices that Muon updates, if it is the optimizer
  // In trained parameters below AdamWOptions::min_8bit_numel. Not with replicated or
  // sharded_over_all, nor if `matrices` has such parameters.
  double small = 0;
  // The part of `total` in units that UnitSpec::axes replicates over all ranks, or shards over all
  // ranks. `root` and `block` count replicated units only if these are gathered: to another type,
  // or from a store.
  double replicated = 0;
  double sharded_over_all = 0;
  // The parts of `total`, `root` and `block` that are frozen (frozen_nested below: of `nested`).
  // Not together with the two above.
  double frozen = 0;
  double frozen_root = 0;
  double frozen_block = 0;
  // Bytes of packed weights and their scales, which the elements above do not count: of all blocks,
  // and of one without its nested unit. The root has none.
  double packed_bytes = 0;
  double packed_block_bytes = 0;
  // The unit nested in each block (a layer's experts); `block`, `frozen_block` and
  // `packed_block_bytes` exclude it. 0: no such unit.
  double nested = 0;
  double frozen_nested = 0;
  double packed_nested_bytes = 0;
};

struct MemoryFormulaOptions {
  std::string strategy = "full_shard";
  int world_size = 1;
  int shard_size = 0;  // StrategyOptions::shard_size
  MixedPrecision precision;
  DType moment_dtype = DType::kFloat32;  // AdamWOptions::state_dtype
  bool muon = false;  // ModelNumel::matrices have an fp32 momentum instead of two moments
  bool reshard_after_forward = true;
  int post_forward_shard_size = 0;  // StrategyOptions::post_forward_shard_size
  int64_t micro_batches = 1;
  bool sync_every_micro_batch = true;
  OffloadOptions offload;
  bool shard_optimizer_over_world = false;  // for hybrid_shard
  bool sums_in_tree = false;  // StrategyOptions::tree_micro_batches is `micro_batches`
};

// Peak bytes of one rank by category, without activations, communication and workspace.
struct StateBytes {
  double parameters = 0;
  double gathered_parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double offload_staging = 0;  // chunks on their way
  double offloaded = 0;        // in the store; not in total()

  double total() const {
    return parameters + gathered_parameters + gradients + optimizer + offload_staging;
  }
};

// Assumes AdamW's two moments, or Muon's fp32 momentum for its matrices, and two shared gather
// buffers. InvalidArgument for a shard size that does not fit; Unimplemented for a strategy that is
// not built in.
absl::StatusOr<StateBytes> PredictStateBytes(const ModelNumel& model,
                                             const MemoryFormulaOptions& options);

}  // namespace zeroth
