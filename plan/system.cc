// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/system.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {
namespace {

using Parts = PlannedCommunicator::Parts;

// Memory that PyTorch's allocator reserves beyond that in use: 1.0 to 1.4 GiB in published runs.
constexpr int64_t kReservedByPyTorch = (int64_t{6} << 30) / 5;

// DeepSpeed's defaults, in elements.
constexpr int64_t kBucket = 500'000'000;         // reduce_bucket_size, allgather_bucket_size
constexpr int64_t kPrefetchBucket = 50'000'000;  // stage3_prefetch_bucket_size
// stage3_param_persistence_threshold: smaller parameters stay gathered.
constexpr int64_t kStays = 100'000;

bool IsGather(const Collective& collective) { return collective.op == CollectiveOp::kAllGather; }

// Splits a unit's collective into buckets; one bucket may hold several units, or a part of one.
Parts InBuckets(const Collective& collective) {
  const int64_t elements = std::max(collective.send.count, collective.recv.count);
  return {.collectives = static_cast<double>(elements) / static_cast<double>(kBucket),
          .elements = kBucket};
}

// Splits a unit's gather under ZeRO-3, which fetches parameters together until they fill the
// bucket.
Parts InPrefetchBuckets(const std::vector<int64_t>& parameters) {
  Parts parts = {.collectives = 0, .elements = 0};
  int64_t bucket = 0;
  for (const int64_t elements : parameters) {
    if (elements < kStays) continue;
    if (bucket == 0) ++parts.collectives;
    bucket += elements;
    parts.elements = std::max(parts.elements, bucket);
    if (bucket >= kPrefetchBucket) bucket = 0;
  }
  return parts;
}

void MakeDeepSpeed(const TrainOptions& options, PlannedSystem& system) {
  const bool shards_parameters =
      options.strategy == "full_shard" || options.strategy == "hybrid_shard";
  system.comm.reduce_bucket = kBucket;
  system.comm.parts = [parameters = system.parameters,
                       shards_parameters](const Collective& collective) {
    const auto unit = parameters->find(collective.call.label);
    if (unit == parameters->end()) return Parts();
    if (shards_parameters && IsGather(collective)) return InPrefetchBuckets(unit->second);
    return InBuckets(collective);
  };
}

}  // namespace

PlannedSystem SystemOf(const TrainOptions& options) {
  PlannedSystem system;
  if (options.like == Like::kZeroth) return system;
  system.reserved_unused_bytes = kReservedByPyTorch;
  if (options.like == Like::kMegatronFsdp) return system;
  // Each parameter is a separate tensor, copied out of the gathered buffer, and its gradient is
  // copied into the buffer to reduce. Zeroth and Megatron-FSDP compute in these buffers instead.
  system.comm.copies_in_and_out = true;
  system.unfused_loss = true;
  if (options.like == Like::kDeepspeed) {
    MakeDeepSpeed(options, system);
    return system;
  }
  system.late_gradient_shards = true;
  system.backward_in_one = options.world_size == 1 && options.param_dtype == options.master_dtype &&
                           options.offload == "none";
  return system;
}

void LearnUnits(const Sharding& sharding, PlannedSystem& system) {
  for (const Unit* unit : sharding.units()) {
    std::vector<int64_t>& elements = (*system.parameters)[unit->name()];
    for (const Parameter* parameter : unit->parameters()) {
      elements.push_back(parameter->shape().numel());
    }
  }
}

std::optional<UnfusedLoss> UnfusedLossOf(const PlannedSystem& system, const TrainOptions& options,
                                         const Sharding& sharding) {
  if (!system.unfused_loss) return std::nullopt;
  UnfusedLoss loss;
  loss.softmax_dtype = options.mixed_precision().master_dtype;
  // shares_buffers holds only for strategies that free units after their forward.
  loss.frees_gathered =
      options.reshard_after_forward == "true" && sharding.strategy().capabilities().shares_buffers;
  loss.gradient_begins_later = !system.backward_in_one;  // MergeBackwardSnapshots leaves it out
  return loss;
}

int64_t LateGradientShardBytes(const PlannedSystem& system, const TrainOptions& options,
                               bool in_full, const Sharding& sharding) {
  if (!system.late_gradient_shards || options.offload != "none" || options.world_size == 1) {
    return 0;
  }
  const Accumulation how = in_full ? Accumulation::kFull : Accumulation::kSingle;
  int64_t bytes = 0;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const ShardLayout::Segment& segment = unit->segment_layout(i);
      if (!segment.trainable || unit->is_full_gradient(i)) continue;
      const DType full = unit->full_gradient_dtype(i, how);
      const DType reduced =
          full == DType::kFloat32 ? DType::kFloat32 : unit->precision().gradient_dtype();
      bytes += segment.shard_numel * static_cast<int64_t>(SizeOf(reduced));
    }
  }
  return bytes;
}

const PlannedAllocator::MemorySnapshot* MergeBackwardSnapshots(
    const TrainOptions& options, const Sharding& sharding, int64_t vocab,
    std::vector<PlannedAllocator::MemorySnapshot>& snapshots) {
  using MemorySnapshot = PlannedAllocator::MemorySnapshot;
  constexpr auto kGradients = static_cast<size_t>(MemoryCategory::kGradients);
  constexpr auto kActivations = static_cast<size_t>(MemoryCategory::kActivations);
  const auto type = static_cast<int64_t>(SizeOf(options.mixed_precision().master_dtype));
  int64_t elements = 0;
  int64_t embedding = 0;
  for (const Unit* unit : sharding.units()) {
    for (const Parameter* parameter : unit->parameters()) {
      if (!parameter->requires_grad()) continue;
      const Shape& shape = parameter->shape();
      elements += shape.numel();
      if (shape.rank() == 2 && shape.dim(0) == vocab) embedding = shape.numel();
    }
  }
  // The end of backward: the last snapshot with the most gradients and with an activation.
  const auto key = [](const MemorySnapshot& snapshot) {
    return std::make_pair(snapshot.categories[kGradients], snapshot.categories[kActivations] > 0);
  };
  const auto end = std::max_element(
      snapshots.rbegin(), snapshots.rend(),
      [&](const MemorySnapshot& a, const MemorySnapshot& b) { return key(a) < key(b); });
  const int64_t earlier = options.grad_accum > 1 ? elements * type : 0;
  for (MemorySnapshot& snapshot : snapshots) snapshot.categories[kGradients] = earlier;
  end->categories[kGradients] += elements * type;
  // The caller holds the logits, and autograd their gradient, the input of the compiled backward.
  end->categories[kActivations] = 2 * options.batch_size * options.seq_len * vocab * type;
  // The embedding's gradient comes last, and is accumulated in an fp32 workspace.
  end->categories[static_cast<size_t>(MemoryCategory::kWorkspace)] =
      embedding * static_cast<int64_t>(sizeof(float));
  for (MemorySnapshot& snapshot : snapshots) {
    snapshot.bytes =
        std::accumulate(snapshot.categories.begin(), snapshot.categories.end(), int64_t{0});
  }
  return &*end;
}

}  // namespace zeroth
