// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// When units are gathered, resharded and reduced: hooks around each unit's forward and backward,
// prefetch along the order that the first step recorded, and streams that let traffic run beside
// compute.

#ifndef ZEROTH_STRATEGIES_SCHEDULER_H_
#define ZEROTH_STRATEGIES_SCHEDULER_H_

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

// When the unit that comes next in backward is gathered, as FSDP's enum of the same name.
enum class BackwardPrefetch : uint8_t {
  kPre,   // before this unit's backward, beside which it is gathered: most overlap
  kPost,  // after it, with this unit freed already: less memory, less overlap
  kNone,  // when it is needed
};

struct SchedulerOptions {
  // Gather the next unit while this one computes. Never changes a result, only when traffic
  // happens. False: neither in forward nor in backward.
  bool prefetch = true;
  // Buffers for gathered units other than the root: the one in use and those that run ahead (a
  // limit on all-gathers in flight, FSDP's limit_all_gathers). At least 1; with 1 there is nothing
  // to prefetch into. Units of an eighth of the largest one's size and less, as norms inside
  // blocks, share as many buffers of their own.
  int gather_buffers = 2;
  // Buffers for full gradients of units other than the root: the one being written and those being
  // reduced. At least 1; with 1 a unit's backward waits for the reduction of the unit before it.
  // Small units have their own here, too.
  int gradient_buffers = 2;
  // Where to mark each unit's forward, backward, gather and reduction; outlives the scheduler.
  Timeline* timeline = nullptr;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
};

// One step, as the hooks see it:
//
//   for each unit in forward:  BeforeForward → compute → AfterForward
//   for each unit in backward: BeforeBackward → compute → AfterBackward
//   FinishBackward → the optimizer updates shards on the compute stream → EndStep
//
// Models drive the hooks through nn; hand-written kernels call them directly. Units nest: the
// root's hooks surround all others. A unit may be used several times in a forward; its gradients
// are reduced after the last of as many backwards. A unit that a step does not use takes part in
// its reductions with zeros. All decisions here follow from the order of calls, never from timing.
//
// Every rank must use the same units in the same order, since ranks gather together: where they do
// not, all of them get an error that names two ranks and the units that these have called for. Only
// where every rank holds all parameters (no_shard, shard groups of one), so that nothing is
// gathered, may a rank leave units out of a micro-batch that others use, or use them in another
// order. There, reductions are started in the reverse of the order of units(), the root's last,
// whatever the order of backward is: as soon as those before have been started, or in
// FinishBackward. So units that are declared in the order of forward have the most overlap.
//
// After an error, call Abandon() before anything else. Used by one rank's thread only. Parameters
// that take gradients get their storage from here for as long as the scheduler lives. A unit of
// another sharding, or a null one in a list, is InvalidArgument.
class Scheduler {
 public:
  // A gather that has been started, and can be waited for. Outlived by the scheduler.
  class UnshardHandle {
   public:
    // On return parameters are usable on the compute stream, unless a use of the unit, or the end
    // of the step, has freed them since: then nothing happens, as at a second call.
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

  // All arguments outlive the scheduler; `strategy` is not attached yet. `units` by Unit::index().
  // InvalidArgument if a number of buffers is below 1.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const SchedulerOptions& options,
                                                           ShardingStrategy& strategy, Mesh& mesh,
                                                           Device& device,
                                                           std::vector<Unit*> units);
  // Waits for the traffic that is still enqueued.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // On return Parameter::data() of the unit is usable on the compute stream. `expects_backward` =
  // false for inference, and for a forward that is run again inside the unit's backward (activation
  // checkpointing): nothing is kept for a backward. FailedPrecondition if the unit's gradients of
  // this step are reduced already.
  absl::Status BeforeForward(Unit& unit, bool expects_backward = true);
  absl::Status AfterForward(Unit& unit, bool expects_backward = true);
  absl::Status BeforeBackward(Unit& unit);
  // Starts the reduction of the unit's gradients.
  absl::Status AfterBackward(Unit& unit);
  // Gradient accumulation: a step of several micro-batches, each a forward, a backward and
  // FinishBackward; both are true at first. They are to be set before the micro-batch's forward:
  // the loss may make the first gradients with it. A 16-bit gradient that has begun as its step's
  // only one, and to which others are to be added in fp32, is FailedPrecondition in FinishBackward
  // or AfterBackward.
  //
  // SetRequiresGradientSync(false): gradients stay full on this rank, and the next micro-batch adds
  // to them: no traffic, but a full gradient buffer for every unit (FSDP2's
  // set_requires_gradient_sync, DDP's no_sync), fp32 unless MixedPrecision::grad_accum_dtype says
  // otherwise.
  // SetIsLastBackward(false): gradients are reduced to shards, to which the next micro-batch's
  // reduction is added, in fp32; sums that can wait for the last micro-batch do (FSDP2's
  // set_is_last_backward). Where gradients are not sharded that is all of them, and they add
  // up as with SetRequiresGradientSync(false).
  //
  // The step's last micro-batch has both.
  void SetRequiresGradientSync(bool on) { requires_gradient_sync_ = on; }
  void SetIsLastBackward(bool last) { is_last_backward_ = last; }
  // False: units stay gathered after their backward, for the next micro-batch's forward; each needs
  // a buffer.
  void SetReshardAfterBackward(bool on) { reshard_after_backward_ = on; }

  // Reduces what is left, and orders the compute stream after every reduction, so that shards of
  // gradients are ready, and after every gather, so that shards of parameters may be written. Until
  // EndStep, a gather waits for what the compute stream has been given before it, and the compute
  // stream for the gather. With more micro-batches to come, it ends this one: no stream waits, and
  // forwards whose backward has not come are taken to have none.
  // FailedPrecondition if the step had no forward that expects a backward.
  absl::Status FinishBackward();
  // FailedPrecondition unless FinishBackward has ended the step's last micro-batch, and EndStep has
  // not been called since: when shards and their gradients are the optimizer's. `attempt` is what
  // was tried, for the message.
  absl::Status ExpectBackwardFinished(absl::string_view attempt) const;
  // The optimizer is done (or the update is skipped): gathered copies are stale and are given up,
  // whoever had gathered them; gradients are forgotten. FailedPrecondition if there are gradients
  // that FinishBackward has not seen.
  absl::Status EndStep();
  // After an error, or instead of finishing a step: waits until all traffic has ended, then
  // everything is sharded again and gradients are forgotten. If the error was in a stream or in
  // communication it cannot be healed: memory is given back all the same, and that error is
  // returned. Otherwise the next step starts afresh; all ranks have to abandon the same step at the
  // same point.
  absl::Status Abandon();

  // Makes full parameters available outside of a pass, to export or inspect them; nothing happens
  // to a unit that is gathered. Each Gather is paired with a Reshard; the last one frees them
  // unless a pass still needs them.
  absl::Status Gather(Unit& unit);
  absl::Status Reshard(Unit& unit);
  // Starts gathering a unit ahead of its use, in a further buffer if none of the set is free.
  // InvalidArgument if it is gathered or on its way already, or if the strategy keeps parameters
  // replicated, so that there is nothing to gather.
  absl::Status Prefetch(Unit& unit);
  // Starts gathering a unit unless it is gathered or on its way, which is not an error; unlike
  // Gather it is not paired: the unit's next use, or the end of the step, frees it (FSDP2's
  // FSDPModule.unshard). Without `async`, waits as UnshardHandle::Wait does.
  absl::StatusOr<UnshardHandle> Unshard(Unit& unit, bool async = false);
  // From now on, a forward (backward) of `unit` starts gathering these, in this order, whatever
  // order earlier steps have shown, and beyond the limit on buffers if it must (FSDP2's
  // set_modules_to_forward_prefetch); an empty list: nothing. The same on all ranks.
  absl::Status SetForwardPrefetch(Unit& unit, std::vector<Unit*> next);
  absl::Status SetBackwardPrefetch(Unit& unit, std::vector<Unit*> next);
  // The unit's parameters as the optimizer has them, in master_dtype whatever is computed in, by
  // segment (see flat_collectives.h), usable on the compute stream. Whether the unit is gathered
  // for compute does not matter and does not change.
  absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit);
  // True while a gather of the unit is enqueued that nobody has waited for.
  bool IsPrefetched(const Unit& unit) const { return unit.state() == UnitState::kGathering; }

 private:
  // What the scheduler knows of one unit in the current step.
  struct Track {
    int active = 0;             // nested hooks that need the unit gathered
    int in_backward = 0;        // those of them that are backward's
    int pending_backwards = 0;  // forwards that expect a backward, minus backwards seen
    bool reduced = false;       // its gradients of this micro-batch are complete
    bool issued = false;        // and their reduction is enqueued
    // What is prefetched, in whatever step, in place of what is recorded, if somebody has said so.
    std::optional<std::vector<Unit*>> forward_prefetch;
    std::optional<std::vector<Unit*>> backward_prefetch;
  };

  Scheduler(const SchedulerOptions& options, ShardingStrategy& strategy, Mesh& mesh, Device& device,
            std::vector<Unit*> units);

  Track& track(const Unit& unit) { return tracks_[static_cast<size_t>(unit.index())]; }
  void ProvideGradients(Unit& unit);
  absl::Status ExpectOwn(const Unit* unit) const;
  absl::Status ExpectOwn(const std::vector<Unit*>& units) const;

  absl::Status EnsureGathered(Unit& unit, Pass pass);
  absl::Status StartGather(Unit& unit, Pass pass);
  absl::Status WaitForShards();
  absl::Status FinishUnshard(Unit& unit);
  absl::Status PrefetchAhead(const Unit& from, Pass pass);
  absl::Status PrepareGradients(Unit& unit);
  MicroBatches HowMicroBatchesComeTogether(const Unit& unit) const;
  absl::Status ExpectRoomForSum(const Unit& unit) const;
  absl::Status BeginGradients(Unit& unit);
  absl::Status BackwardIsOver(Unit& unit);
  absl::Status SyncGradients(Unit& unit);
  absl::Status ZeroMissingGradients(Unit& unit);
  absl::Status ReshardAll();
  absl::Status CreateKernels();
  // Has the compute stream wait for a unit's gather or reduction.
  static constexpr char kWaitForGather[] = "wait for gather";
  static constexpr char kWaitForReduce[] = "wait for reduce";
  absl::Status ComputeWaits(const std::shared_ptr<Event>& event, absl::string_view what,
                            const Unit& unit);
  // Marks where `what` of a unit begins or ends in a stream, if anybody wants to know.
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
  std::vector<Track> tracks_;
  // In which reductions are started in FinishBackward, and everywhere if in_fixed_order_.
  std::vector<Unit*> reduction_order_;
  bool in_fixed_order_ = false;
  size_t next_reduction_ = 0;
  TraversalRecorder order_;
  FullBuffers gathered_;
  FullBuffers gradients_;
  std::shared_ptr<Event> shards_ready_;  // the last write to the shards
  bool expects_backward_ = false;        // the step had a forward that does
  bool backward_finished_ = false;       // FinishBackward saw all gradients
  bool has_micro_batches_ = false;       // FinishBackward has ended one that is not the last
  bool kept_in_full_ = false;            // it has left the gradients of the latest one full
  bool requires_gradient_sync_ = true;
  bool is_last_backward_ = true;
  bool reshard_after_backward_ = true;
  // After the buffers, so that they end before those go away.
  std::unique_ptr<Stream> gather_stream_;
  std::unique_ptr<Stream> reduce_stream_;
  std::unique_ptr<Stream> across_stream_;  // nullptr where no sums go across groups
  // On those streams; nullptr where nothing is rounded.
  std::unique_ptr<Kernels> gather_kernels_;
  std::unique_ptr<Kernels> reduce_kernels_;
  std::unique_ptr<Kernels> across_kernels_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SCHEDULER_H_
