// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/reference_losses.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Aliases a source that outlives the result.
std::shared_ptr<const TokenSource> Borrow(const TokenSource& source) {
  return {std::shared_ptr<const TokenSource>(), &source};
}

// Returns true on all ranks if `mine` is true on any.
absl::StatusOr<bool> OnAnyRank(Trainer& trainer, bool mine) {
  Device& device = trainer.device();
  const std::vector<float> value = {mine ? 1.0f : 0.0f};
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor flag,
      Tensor::FromHost<float>(device, Shape({1}), value, MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(trainer.world().AllReduce(flag, ReduceOp::kSum, device.compute_stream(),
                                                   "stop of the reference"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, flag.ToHost<float>());
  return sum[0] > 0;
}

// Returns the losses of one source, [rows, seq]; nullopt if a rank wants to stop.
absl::StatusOr<std::optional<std::vector<float>>> LossesOfSource(
    Trainer& trainer, const TokenSource& source, const LoaderOptions& options,
    absl::FunctionRef<bool()> wants_to_stop) {
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(Borrow(source), options));
  Communicator& world = trainer.world();
  Device& device = trainer.device();
  const int64_t ranks_per_data = world.size() / options.world_size;
  const int64_t of_rank = options.batch_size * options.seq_len;
  const int64_t count = source.size() / source.row_length() * options.seq_len;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all,
                          Tensor::Empty(device, Shape({world.size(), of_rank}), DType::kFloat32,
                                        MemoryCategory::kCommunication));
  std::vector<float> losses;
  losses.reserve(static_cast<size_t>(count));
  for (int64_t step = 0; static_cast<int64_t>(losses.size()) < count; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const bool stop, OnAnyRank(trainer, wants_to_stop()));
    if (stop) return std::nullopt;
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(step));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mine, trainer.TokenLosses(batch));
    ZEROTH_RETURN_IF_ERROR(
        world.AllGather(mine, all, device.compute_stream(), "losses of the reference"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> gathered, all.ToHost<float>());
    for (int64_t rank = 0; rank < world.size(); rank += ranks_per_data) {
      const auto begin = gathered.begin() + rank * of_rank;
      const int64_t left = count - static_cast<int64_t>(losses.size());
      losses.insert(losses.end(), begin, begin + std::min(of_rank, left));
    }
  }
  return losses;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ReferenceLosses>> ComputeReferenceLosses(
    Trainer& trainer, const Mixture& data, LoaderOptions loader,
    absl::FunctionRef<bool()> wants_to_stop) {
  loader.shuffle = false;
  loader.once = true;
  loader.first_window = 0;
  loader.reference = nullptr;
  ReferenceLosses losses;
  for (size_t i = 0; i < data.sources(); ++i) {
    ZEROTH_ASSIGN_OR_RETURN(std::optional<std::vector<float>> of_source,
                            LossesOfSource(trainer, data.source(i), loader, wants_to_stop));
    if (!of_source.has_value()) return nullptr;
    losses.push_back(*std::move(of_source));
  }
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  return std::make_shared<const ReferenceLosses>(std::move(losses));
}

}  // namespace zeroth
