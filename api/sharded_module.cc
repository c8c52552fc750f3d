// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/sharded_module.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/device/timeline.h"

namespace zeroth {
namespace {

constexpr char kSteps[] = "steps";
constexpr char kOptimizerSteps[] = "optimizer_steps";

// Returns the path of the checkpoint that Load reads.
absl::StatusOr<std::string> FindCheckpoint(const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(const bool is_checkpoint,
                          PathExists(absl::StrCat(directory, "/", kCheckpointIndexName)));
  if (is_checkpoint) return directory;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(directory));
  if (!steps.empty()) return CheckpointPath(directory, steps.back());
  return absl::NotFoundError(absl::StrCat(
      directory, ": no checkpoint there; expected a directory step-N, or one that holds such"));
}

// The tensor ranks as a group of the mesh. Its collectives run on a separate stream.
class TensorGroup final : public TensorRanks {
 public:
  // `stream` is nullptr if there is one rank.
  TensorGroup(Communicator& group, Stream& compute, std::unique_ptr<Stream> stream,
              const TensorParallelOptions& options, Timeline* timeline)
      : TensorRanks(options, group.rank()),
        group_(group),
        compute_(compute),
        timeline_(timeline),
        stream_(std::move(stream)) {}

 private:
  absl::Status Enqueue(Exchange exchange, const Tensor& send, const Tensor& recv,
                       absl::string_view label) {
    if (exchange == Exchange::kGather) return group_.AllGather(send, recv, *stream_, label);
    if (exchange == Exchange::kSum) return group_.AllReduce(recv, ReduceOp::kSum, *stream_, label);
    return group_.ReduceScatter(send, recv, ReduceOp::kSum, *stream_, label);
  }

  absl::Status Run(Exchange exchange, const Tensor& send, const Tensor& recv,
                   absl::string_view label, const OverlappedWork& overlapped) override {
    if (size() == 1) return overlapped == nullptr ? absl::OkStatus() : overlapped();
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> computed, compute_.Record());
    ZEROTH_RETURN_IF_ERROR(stream_->Wait(computed));
    absl::Status status = Enqueue(exchange, send, recv, label);
    const absl::StatusOr<std::shared_ptr<Event>> done = stream_->Record();
    status.Update(done.status());
    if (!done.ok()) return status;
    const CollectiveOp op = exchange == Exchange::kSum      ? CollectiveOp::kAllReduce
                            : exchange == Exchange::kGather ? CollectiveOp::kAllGather
                                                            : CollectiveOp::kReduceScatter;
    const std::string name = absl::StrCat(CollectiveOpName(op), " ", label);
    if (overlapped != nullptr && status.ok()) {
      status = Timed(timeline_, compute_, "beside", name, overlapped);
    }
    // Waits even after an error: the collective uses memory that the compute stream may reuse.
    status.Update(
        TimedWait(timeline_, compute_, kWaitFor, name, [&] { return compute_.Wait(*done); }));
    return status;
  }

  Communicator& group_;
  Stream& compute_;
  Timeline* const timeline_;
  const std::unique_ptr<Stream> stream_;
};

std::vector<ShardState> StatesOf(const Optimizer* optimizer) {
  return optimizer == nullptr ? std::vector<ShardState>() : optimizer->states();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardedModule>> ShardedModule::Create(
    Rank& rank, const WrapPlan& plan, const ShardingOptions& options,
    const TensorParallelOptions& tensor) {
  std::unique_ptr<ShardedModule> sharded(new ShardedModule(rank));
  ShardingOptions with_axes = options;
  if (tensor.enabled()) with_axes.inner_axes.push_back({kTensorAxis, tensor.size});
  ZEROTH_ASSIGN_OR_RETURN(sharded->sharding_,
                          Sharding::Create(rank.world(), rank.device(), with_axes, plan.units));
  if (!plan.modules.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(sharded->hooks_, ShardingHooks::Attach(plan, *sharded->sharding_));
  }
  sharded->context_ = std::make_unique<Context>(rank.device(), rank.kernels(), sharded->tape_);
  if (tensor.enabled()) {
    Mesh& mesh = sharded->sharding().mesh();
    ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes axes, mesh.Find({kTensorAxis}));
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const group, mesh.Group(axes, Traffic::kActivations));
    std::unique_ptr<Stream> stream;
    if (tensor.size > 1) {
      ZEROTH_ASSIGN_OR_RETURN(stream, rank.device().CreateStream(kTensorAxis));
    }
    sharded->tensor_ranks_ =
        std::make_unique<TensorGroup>(*group, rank.device().compute_stream(), std::move(stream),
                                      tensor, options.scheduler.timeline);
    sharded->context_->set_tensor_ranks(sharded->tensor_ranks_.get());
  }
  return sharded;
}

absl::Status ShardedModule::Save(const std::string& directory, const Optimizer* optimizer) {
  ZEROTH_RETURN_IF_ERROR(status_);
  CheckpointSaverOptions options;
  options.directory = directory;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointSaver> saver,
                          CheckpointSaver::Create(rank_.world(), rank_.device(), options));
  nlohmann::json training = {{kSteps, steps_}};
  if (optimizer != nullptr) training[kOptimizerSteps] = optimizer->step();
  return saver->Save(steps_, training, OwnedPieces(*sharding_, StatesOf(optimizer)), /*last=*/true)
      .status();
}

absl::Status ShardedModule::Load(const std::string& directory, Optimizer* optimizer) {
  // One rank may be within a step that another has dropped after an error.
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(rank_.world(), rank_.device(),
                                       sharding_->ExpectBetweenSteps("load a checkpoint"),
                                       "load a checkpoint"));
  // Another program may still write to the directory, and ranks may see it in different states: all
  // load the checkpoint that rank 0 sees.
  const absl::StatusOr<std::string> found =
      rank_.index() == 0 ? FindCheckpoint(directory) : absl::StatusOr<std::string>("");
  ZEROTH_RETURN_IF_ERROR(
      AgreeOnStatus(rank_.world(), rank_.device(), found.status(), "find a checkpoint"));
  ZEROTH_ASSIGN_OR_RETURN(const std::string path, BroadcastText(rank_.world(), rank_.device(), 0,
                                                                *found, "name of the checkpoint"));
  const absl::StatusOr<std::unique_ptr<CheckpointReader>> reader = CheckpointReader::Open(path);
  ZEROTH_RETURN_IF_ERROR(
      AgreeOnStatus(rank_.world(), rank_.device(), reader.status(), "open the checkpoint"));
  const absl::Status loaded = LoadState(**reader, *sharding_, StatesOf(optimizer)).status();
  if (absl::IsFailedPrecondition(loaded)) return loaded;  // on every rank, before any change
  if (!loaded.ok()) {
    status_ = absl::Status(loaded.code(), absl::StrCat(loaded.message(),
                                                       "; a part of the values may be the "
                                                       "checkpoint's: load another one"));
    return status_;
  }
  // A checkpoint that was saved without an optimizer, or by the caller's CheckpointSaver, may lack
  // these keys.
  const nlohmann::json& training = (*reader)->index().training;
  const auto number = [&](const char* key) -> int64_t {
    const auto at = training.find(key);
    return at != training.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
  };
  steps_ = number(kSteps);
  if (optimizer != nullptr) optimizer->set_step(number(kOptimizerSteps));
  status_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, Module& model,
                                                          const ShardingOptions& options,
                                                          const WrapPolicy& wrap, uint64_t seed) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<ShardedModule> sharded,
                          ShardedModule::Create(rank, PlanUnits(model, wrap), options));
  ZEROTH_RETURN_IF_ERROR(sharded->sharding().Initialize(seed));
  return sharded;
}

absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, std::vector<UnitSpec> units,
                                                          const ShardingOptions& options,
                                                          uint64_t seed) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<ShardedModule> sharded,
                          ShardedModule::Create(rank, {std::move(units), {}}, options));
  ZEROTH_RETURN_IF_ERROR(sharded->sharding().Initialize(seed));
  return sharded;
}

}  // namespace zeroth
