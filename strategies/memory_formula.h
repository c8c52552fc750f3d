// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a rank's training state takes, before anything is allocated: the formula of
// docs/memory.md, which tests hold against the allocator's account.

#ifndef ZEROTH_STRATEGIES_MEMORY_FORMULA_H_
#define ZEROTH_STRATEGIES_MEMORY_FORMULA_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"

namespace zeroth {

// Elements of parameters, all of them trainable; padding is left out.
struct ModelNumel {
  double total = 0;
  double root = 0;      // of the root unit
  double block = 0;     // of the largest other unit
  double matrices = 0;  // that Muon updates, if it is the optimizer
  // Of `total`, those of units with axes of their own (UnitSpec::axes): replicated over all ranks,
  // whatever the strategy does, and sharded over all of them. Of the former the root and the
  // largest unit count only if they are gathered: for another type, or from a store.
  double replicated = 0;
  double sharded_over_all = 0;
};

struct MemoryFormulaOptions {
  std::string strategy = "full_shard";
  int world_size = 1;
  int shard_size = 0;  // of hybrid_shard
  MixedPrecision precision;
  DType moment_dtype = DType::kFloat32;  // AdamWOptions::state_dtype
  bool muon = false;  // momentum in fp32 in the place of ModelNumel::matrices' two moments
  bool reshard_after_forward = true;
  int post_forward_shard_size = 0;  // StrategyOptions's; 0: none
  int64_t micro_batches = 1;
  bool sync_every_micro_batch = true;
  OffloadOptions offload;
  bool shard_optimizer_over_world = false;  // of hybrid_shard
  bool sums_in_tree = false;  // StrategyOptions::tree_micro_batches is `micro_batches`
};

// Peak bytes of one rank by category; activations, communication and workspace are no part of it.
struct StateBytes {
  double parameters = 0;
  double gathered_parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double offload_staging = 0;  // what is on its way, in chunks
  double offloaded = 0;        // in the store, and no part of the sum

  double total() const {
    return parameters + gathered_parameters + gradients + optimizer + offload_staging;
  }
};

// With AdamW's two moments, or Muon's fp32 momentum for its matrices, and two gather buffers
// that units share. InvalidArgument for a shard size that does not fit; Unimplemented for a
// strategy that is not of this project.
absl::StatusOr<StateBytes> PredictStateBytes(const ModelNumel& model,
                                             const MemoryFormulaOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_MEMORY_FORMULA_H_
