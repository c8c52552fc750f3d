// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/memory_formula.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/state_passes.h"
#include "zeroth/strategies/testing/tree_sum.h"

namespace zeroth {
namespace {

double Bytes(DType dtype) { return static_cast<double>(SizeOf(dtype)); }

// Bytes of an element's two moments. 8-bit moments share an fp32 scale for each block.
double MomentBytes(DType dtype) {
  const double scale =
      dtype == DType::kUInt8 ? Bytes(DType::kFloat32) / static_cast<double>(kMomentBlock) : 0;
  return 2 * (Bytes(dtype) + scale);
}

absl::StatusOr<int> ShardCount(const MemoryFormulaOptions& options) {
  const std::string& strategy = options.strategy;
  if (strategy == "no_shard") return 1;
  const bool in_groups = strategy == "shard_optimizer" || strategy == "shard_grad_op";
  if (strategy == "full_shard" || (in_groups && options.shard_size == 0)) {
    return options.world_size;
  }
  if (!in_groups && strategy != "hybrid_shard") {
    return Unimplemented("no memory formula for strategy '", strategy, "'");
  }
  if (options.shard_size < 1 || options.world_size % options.shard_size != 0) {
    return InvalidArgument("shard size ", options.shard_size, " does not divide the world size ",
                           options.world_size);
  }
  return options.shard_size;
}

// A block and its nested unit share one buffer size unless one is at most an eighth of the other
// (FullBuffers).
bool HaveOneSize(double block, double nested) {
  return std::min(block, nested) > std::max(block, nested) / 8;
}

// Elements (or bytes) of the shared buffers: `together` large ones, or two of each size.
double SharedBuffers(double block, double nested, int together) {
  return HaveOneSize(block, nested) ? together * std::max(block, nested) : 2 * (block + nested);
}

}  // namespace

absl::StatusOr<StateBytes> PredictStateBytes(const ModelNumel& model,
                                             const MemoryFormulaOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const int shards, ShardCount(options));
  const bool spans = options.shard_optimizer_over_world && shards < options.world_size;
  if (spans && options.strategy != "hybrid_shard") {
    return InvalidArgument("shard_optimizer_over_world is for hybrid_shard, not for '",
                           options.strategy, "'");
  }
  const int owners = spans ? options.world_size : shards;
  // Units that are replicated over all ranks have owners on all of them, even if there is one
  // group.
  const bool replicated_spans = options.shard_optimizer_over_world && options.world_size > 1;
  const double by_strategy = model.total - model.replicated - model.sharded_over_all;
  const double own = (by_strategy / owners) +
                     (model.replicated / (replicated_spans ? options.world_size : 1)) +
                     (model.sharded_over_all / options.world_size);
  const double own_trained = own - (model.frozen / owners);
  const double own_small = options.moment_dtype == DType::kUInt8 ? model.small / owners : 0;
  const double own_matrices = options.muon ? model.matrices / owners : 0;
  const double group_part =
      (spans ? by_strategy / shards : 0) + (replicated_spans ? model.replicated : 0);
  // Elements of units that several ranks share.
  const double shared = (owners > 1 ? by_strategy : 0) + (replicated_spans ? model.replicated : 0) +
                        (options.world_size > 1 ? model.sharded_over_all : 0);
  const bool sharded = shared > 0;
  const double trained = model.total - model.frozen;
  const double shared_trained = shared - (owners > 1 ? model.frozen : 0);
  StateBytes bytes;
  const OffloadOptions& offload = options.offload;
  (offload.parameters ? bytes.offloaded : bytes.parameters) +=
      (Bytes(options.precision.master_dtype) * own) + (model.packed_bytes / owners);
  (offload.optimizer ? bytes.offloaded : bytes.optimizer) +=
      MomentBytes(options.moment_dtype) * (own_trained - own_matrices - own_small) +
      MomentBytes(DType::kFloat32) * own_small + Bytes(DType::kFloat32) * own_matrices;

  const bool shares_buffers =
      options.strategy == "full_shard" || options.strategy == "hybrid_shard";
  const bool keeps_all = !shares_buffers || !options.reshard_after_forward;
  const bool copies = !options.precision.computes_in_masters() || offload.parameters;
  const double element = Bytes(options.precision.param_dtype);
  // Bytes are gathered as they are, and never copied to another type.
  const double packed = owners > 1 || offload.parameters ? 1 : 0;
  if (sharded || copies) {
    const double after_forward = options.post_forward_shard_size > 0 && sharded
                                     ? (model.total - model.root) / options.post_forward_shard_size
                                     : 0;
    // The block, its nested unit, and one prefetched unit.
    const double in_turns =
        SharedBuffers(element * model.block + packed * model.packed_block_bytes,
                      element * model.nested + packed * model.packed_nested_bytes,
                      /*together=*/3);
    bytes.gathered_parameters =
        keeps_all ? element * (copies ? model.total : shared) + packed * model.packed_bytes
                  : element * (model.root + after_forward) + in_turns;
    bytes.gathered_parameters += element * group_part;
  }

  const bool several = options.micro_batches > 1;
  const bool in_tree = options.sums_in_tree && several;
  const bool adds_up_in_full =
      several && !in_tree &&
      (!options.sync_every_micro_batch || options.strategy == "shard_optimizer" ||
       (options.shard_optimizer_over_world && shards == 1));
  const bool adds_up_in_shards = several && sharded && !adds_up_in_full && !in_tree;
  // If nothing is sharded, micro-batches accumulate in the full gradients.
  const bool full_is_sum = adds_up_in_full || (several && !sharded && !in_tree);
  const DType full_gradient =
      full_is_sum ? options.precision.grad_accum_dtype : options.precision.reduce_dtype;
  const double gradient = Bytes(full_gradient);
  const double shard_gradient = Bytes(adds_up_in_shards || full_gradient == DType::kFloat32
                                          ? DType::kFloat32
                                          : options.precision.gradient_dtype());
  if (offload.gradients) {
    bytes.offloaded += Bytes(DType::kFloat32) * own_trained;  // room for either
  } else {
    bytes.gradients = shard_gradient * own_trained;
  }
  if (adds_up_in_shards && spans) bytes.gradients += Bytes(DType::kFloat32) * group_part;
  if (in_tree) {
    const bool first_is_result =
        !offload.gradients && options.precision.gradient_dtype() == DType::kFloat32;
    const int levels = TreeSumLevels(options.micro_batches) - (first_is_result ? 1 : 0);
    bytes.gradients += Bytes(DType::kFloat32) * own_trained * levels;
  }
  if (sharded || offload.gradients || in_tree) {
    const double block = model.block - model.frozen_block;
    const double nested = model.nested - model.frozen_nested;
    const double in_turns =
        model.root - model.frozen_root + SharedBuffers(block, nested, /*together=*/2);
    // If every unit keeps its buffer, a part of some is unused.
    double unused = 0;
    if (HaveOneSize(block, nested)) {
      const double blocks = (model.total - model.root) / (model.block + model.nested);
      unused = blocks * std::abs(block - nested);
    }
    bytes.gradients +=
        gradient * (adds_up_in_full
                        ? (offload.gradients || in_tree ? trained : shared_trained) + unused
                        : in_turns);
  }

  const auto chunk_of = [&](std::initializer_list<double> segments) {
    return std::min(static_cast<double>(offload.chunk_numel), std::max(segments) / owners);
  };
  const double root = model.root - model.frozen_root;
  const double block = model.block - model.frozen_block;
  const double nested = model.nested - model.frozen_nested;
  const double update = (offload.parameters ? Bytes(options.precision.master_dtype) : 0) +
                        (offload.gradients ? shard_gradient : 0) +
                        (offload.optimizer ? MomentBytes(options.moment_dtype) : 0);
  bytes.offload_staging = StatePasses::kSlots * update * chunk_of({root, block, nested});
  if (offload.parameters && !options.precision.computes_in_masters()) {
    // Gathers round offloaded shards through staging, a segment at a time.
    bytes.offload_staging +=
        Bytes(DType::kFloat32) *
        chunk_of({root, block, nested, model.frozen_root, model.frozen_block, model.frozen_nested});
  }
  return bytes;
}

}  // namespace zeroth
