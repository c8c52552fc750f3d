// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Decides when units are gathered, resharded and reduced, on streams that overlap compute.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/traversal_recorder.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// When backward gathers the next unit, as FSDP's enum of the same name.
enum class BackwardPrefetch : uint8_t {
  kPre,   // before this unit's backward, which overlaps the gather: most overlap
  kPost,  // after this unit's backward, with this unit freed: less memory, less overlap
  kNone,  // when the next unit's backward begins
};

struct SchedulerOptions {
  // Gathers the next unit while this one computes. Does not change results.
  bool prefetch = true;
  // Buffers for gathered units other than the root: one for the unit in use, the others for
  // prefetched units (FSDP's limit_all_gathers). At least 1; 1 disables prefetching. FullBuffers
  // says how small units share them.
  int gather_buffers = 2;
  // Buffers for full gradients of units other than the root: one that backward writes, the others
  // being reduced. At least 1; with 1, a unit's backward waits for the previous unit's reduction.
  int gradient_buffers = 2;
  // Receives marks of each unit's forward, backward, gather and reduction, and of what a
  // TrainingStep enqueues after them; outlives the scheduler.
  Timeline* timeline = nullptr;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
};

// One step calls these hooks:
//
//   for each unit in forward:  BeforeForward → compute → AfterForward
//   for each unit in backward: BeforeBackward → compute → AfterBackward
//   FinishBackward → the optimizer updates shards on the compute stream → EndStep
//
// Models call them through nn (nn/shard_module.h), hand-written kernels directly. Units nest: the
// root's hooks surround all others. A unit nested in a checkpointed module stays gathered from its
// recomputed forward to its backward, unless a unit that is needed earlier takes its buffer. A unit
// used several times in forward is reduced after the last of as many backwards. A unit that a step
// does not use contributes zeros to the reductions. Every decision follows from the order of calls,
// never from timing.
//
// All ranks use the same units in the same order, since they gather together; otherwise all of them
// get an error that names two ranks and their units. Exception: if every rank holds all parameters
// (no_shard, shard groups of one), a rank may skip units in a micro-batch or use another order.
// Reductions then start in the reverse order of units(), the root last, so units declared in the
// order of forward overlap best.
//
// After an error, call Abandon() before anything else. A unit of another sharding, or a null one in
// a list, is InvalidArgument. While the scheduler lives, it provides the storage of gradients
// (Parameter::set_gradient_provider). Used by one rank's thread only.
class Scheduler {
 public:
  // A gather that has been started. The scheduler outlives it.
  class UnshardHandle {
   public:
    // On return the unit's parameters are usable on the compute stream. Does nothing if a use of
    // the unit, or the end of the step, has freed them already, and does nothing when called again.
    absl::Status Wait() {
      return scheduler_ == nullptr ? absl::OkStatus()
                                   : std::exchange(scheduler_, nullptr)->FinishUnshard(*unit_);
    }

   private:
    friend class Scheduler;
    UnshardHandle(Scheduler* scheduler, Unit* unit) : scheduler_(scheduler), unit_(unit) {}
    Scheduler* scheduler_;
    Unit* unit_;
  };

  // All arguments outlive the scheduler, which attaches `strategy`. `units` are in the order of
  // Unit::index(). InvalidArgument if a number of buffers is below 1.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const SchedulerOptions& options,
                                                           ShardingStrategy& strategy, Mesh& mesh,
                                                           Device& device,
                                                           std::vector<Unit*> units);
  // Waits for the collectives that are still enqueued.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // On return Parameter::data() of the unit is usable on the compute stream. `expects_backward` is
  // false for inference, and for a forward recomputed in the unit's backward (activation
  // checkpointing). FailedPrecondition if it is true and the unit's gradients of this micro-batch
  // are complete.
  absl::Status BeforeForward(Unit& unit, bool expects_backward = true);
  absl::Status AfterForward(Unit& unit, bool expects_backward = true);
  absl::Status BeforeBackward(Unit& unit);
  // Starts the reduction of the unit's gradients.
  absl::Status AfterBackward(Unit& unit);
  // Gradient accumulation: each micro-batch is a forward, a backward and FinishBackward. Set both
  // flags before a micro-batch's forward; both are true by default, and for the last micro-batch.
  // FinishBackward and AfterBackward return FailedPrecondition if full gradients were allocated in
  // 16 bits for a single micro-batch, and later micro-batches would have to be added in fp32.
  //
  // SetRequiresGradientSync(false): gradients stay full on this rank, and the next micro-batch adds
  // to them, without collectives but with a full gradient buffer for every unit, in
  // MixedPrecision::grad_accum_dtype (FSDP2's set_requires_gradient_sync, DDP's no_sync).
  // SetIsLastBackward(false): gradients are reduced and accumulate in fp32 shards; the last
  // micro-batch sums them across groups (FSDP2: set_is_last_backward(False) and
  // set_requires_all_reduce(False)). Unsharded gradients accumulate in full.
  void SetRequiresGradientSync(bool on) { requires_gradient_sync_ = on; }
  void SetIsLastBackward(bool last) { is_last_backward_ = last; }
  // False: units stay gathered after their backward for the next micro-batch's forward. Each unit
  // then needs a buffer.
  void SetReshardAfterBackward(bool on) { reshard_after_backward_ = on; }

  // Starts the reductions that have not started. After the last micro-batch, has the compute stream
  // wait for all reductions and gathers: gradient shards are complete, and parameter shards may be
  // written. From then until EndStep, gathers and the compute stream wait for each other, but what
  // is gathered already may have the old values: read updated parameters after EndStep. After any
  // other micro-batch no stream waits, and a forward without its backward is assumed to have none.
  // FailedPrecondition if the micro-batch had no forward that expects a backward.
  absl::Status FinishBackward();
  // FailedPrecondition except between FinishBackward of the last micro-batch and EndStep, when an
  // optimizer may use shards and their gradients. `attempt` is for the message.
  absl::Status ExpectBackwardFinished(absl::string_view attempt) const;
  // Ends the step after the optimizer's update, or without one: reshards all units and frees
  // gradients. FailedPrecondition if there are gradients and FinishBackward has not ended the last
  // micro-batch, or if a unit is still in use, by a pass or by a Gather without its Reshard.
  absl::Status EndStep();
  // Drops the step, after an error or instead of finishing it: waits until all streams are idle,
  // then reshards all units and frees gradients. All ranks must abandon the same step at the same
  // point. Returns the error of a stream or of communication, but frees memory all the same.
  absl::Status Abandon();
  // The number of Abandon calls so far. A module's hooks call it after an error in any pass.
  int64_t abandons() const { return abandons_; }

  // Gathers a unit outside of a pass, to export or inspect its parameters. Each Gather is paired
  // with a Reshard, the last of which frees the parameters unless a pass still needs them. Nothing
  // that ends a step, such as Sharding::Load or an average's swap, may run in between.
  absl::Status Gather(Unit& unit);
  // Ends a Gather. Also frees the unit after an Unshard, if it is not freed yet (FSDP2's
  // FSDPModule.reshard).
  absl::Status Reshard(Unit& unit);
  // Starts gathering a unit ahead of its use, in an additional buffer if no shared one is free.
  // InvalidArgument if the unit is gathering or gathered already, or if the strategy keeps
  // parameters replicated, so that there is nothing to gather.
  absl::Status Prefetch(Unit& unit);
  // Like Prefetch, but does nothing if the unit is gathering or gathered. The unit's next use, or
  // the end of the step, frees it (FSDP2's FSDPModule.unshard). Unless `async`, waits for the
  // gather.
  absl::StatusOr<UnshardHandle> Unshard(Unit& unit, bool async = false);
  // From now on, a forward (backward) of `unit` prefetches `next`, in this order, instead of the
  // recorded successor, even beyond the limit on buffers (FSDP2's set_modules_to_forward_prefetch).
  // The same on all ranks.
  absl::Status SetForwardPrefetch(Unit& unit, std::vector<Unit*> next) {
    return SetPrefetch(unit, std::move(next), Pass::kForward);
  }
  absl::Status SetBackwardPrefetch(Unit& unit, std::vector<Unit*> next) {
    return SetPrefetch(unit, std::move(next), Pass::kBackward);
  }
  // Gathers the unit's masters, unrounded in master_dtype, by segment, for exports and inspection,
  // in any state of the unit. They are usable on the compute stream. Each has separate memory,
  // except that replicated segments alias their shards unless these are offloaded.
  absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit);
  // SchedulerOptions::timeline.
  Timeline* timeline() const { return options_.timeline; }
  // True while a gather of the unit is enqueued, and nothing has waited for it.
  bool IsPrefetched(const Unit& unit) const { return unit.state() == UnitState::kGathering; }

 private:
  // A unit's progress in the current step.
  struct Track {
    int active = 0;             // uses of the unit that have begun and not ended
    int in_backward = 0;        // active uses that are backwards
    int pending_backwards = 0;  // forwards that expect a backward, minus backwards that have ended
    bool over = false;          // this micro-batch's last backward has ended
    bool complete = false;      // this micro-batch's gradients are complete
    bool issued = false;        // the reduction of those gradients is enqueued
  };
  // A stream of collectives, with the kernels on it; nullptr if nothing is rounded there.
  struct CommLane {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Kernels> kernels;
  };
  // The units of SetForwardPrefetch and SetBackwardPrefetch; std::nullopt: those recorded.
  struct ChosenPrefetch {
    std::optional<std::vector<Unit*>> forward;
    std::optional<std::vector<Unit*>> backward;
  };

  Scheduler(const SchedulerOptions& options, ShardingStrategy& strategy, Mesh& mesh, Device& device,
            std::vector<Unit*> units);

  Track& track(const Unit& unit) { return tracks_[static_cast<size_t>(unit.index())]; }
  ChosenPrefetch& chosen(const Unit& unit) { return chosen_[static_cast<size_t>(unit.index())]; }
  void ProvideGradients(Unit& unit);
  absl::Status ExpectKnownUnit(const Unit* unit) const;
  absl::Status SetPrefetch(Unit& unit, std::vector<Unit*> next, Pass pass);

  // True while the backward of some unit is under way, so that a forward is a recomputation.
  bool InBackward() const;
  absl::Status MakeRoom(const Unit& unit);
  absl::Status EnsureGathered(Unit& unit, Pass pass);
  absl::Status StartGather(Unit& unit, Pass pass);
  absl::Status WaitForShards();
  absl::Status FinishUnshard(Unit& unit);
  absl::Status PrefetchAhead(const Unit& from, Pass pass);
  absl::Status PrepareGradients(Unit& unit);
  Accumulation AccumulationOf(const Unit& unit) const;
  absl::Status ExpectRoomForSum(const Unit& unit) const;
  absl::Status BeginGradients(Unit& unit);
  absl::Status BackwardIsOver(Unit& unit);
  absl::Status SyncGradients(Unit& unit);
  absl::Status ZeroMissingGradients(Unit& unit);
  absl::Status ReshardAll();
  absl::Status CreateLanes();
  // Makes the compute stream wait for a unit's gather or reduction.
  static constexpr char kWaitForGather[] = "wait for gather";
  static constexpr char kWaitForReduce[] = "wait for reduce";
  absl::Status ComputeWaits(const std::shared_ptr<Event>& event, absl::string_view what,
                            const Unit& unit);
  // Mark in the timeline, if there is one, where `what` (such as a unit's gather) begins and ends
  // in a stream.
  absl::Status MarkBegin(Stream& stream, absl::string_view what, const Unit& unit);
  absl::Status MarkEnd(Stream& stream, absl::string_view what, const Unit& unit);
  absl::Status Trim();
  absl::Status EndMicroBatch();
  void ForgetStep();

  SchedulerOptions options_;
  ShardingStrategy& strategy_;
  const StrategyCapabilities capabilities_;
  Mesh& mesh_;
  Device& device_;
  std::vector<Unit*> units_;
  std::vector<Track> tracks_;           // by Unit::index()
  std::vector<ChosenPrefetch> chosen_;  // by Unit::index()
  // The order in which FinishBackward starts reductions, and AfterBackward too if in_fixed_order_.
  std::vector<Unit*> reduction_order_;
  bool in_fixed_order_ = false;
  size_t next_reduction_ = 0;
  TraversalRecorder order_;
  // Units that stay gathered between their recomputed forward and their backward, in that order.
  std::vector<Unit*> kept_;
  FullBuffers gathered_;
  FullBuffers gradients_;
  std::shared_ptr<Event> shards_ready_;  // the last write to the shards
  bool expects_backward_ = false;        // the micro-batch had a forward that expects a backward
  bool backward_finished_ = false;       // FinishBackward has ended the last micro-batch
  bool has_micro_batches_ = false;       // FinishBackward has ended a micro-batch before the last
  bool kept_in_full_ = false;            // that micro-batch's gradients stayed full
  int64_t abandons_ = 0;
  bool requires_gradient_sync_ = true;
  bool is_last_backward_ = true;
  bool reshard_after_backward_ = true;
  // Declared after the buffers, so that streams end before buffers are destroyed.
  CommLane gather_;
  CommLane reduce_;
  CommLane across_;  // without a stream if nothing is reduced across groups
};

}  // namespace zeroth
