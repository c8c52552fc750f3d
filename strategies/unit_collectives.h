// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The collectives on a unit's flat buffers, and the place for collectives of one's own.

#ifndef ZEROTH_STRATEGIES_UNIT_COLLECTIVES_H_
#define ZEROTH_STRATEGIES_UNIT_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/stream_scratch.h"

namespace zeroth {

// What a collective is called with. It enqueues everything on `stream`, on which `kernels` run.
struct CollectiveContext {
  Communicator& group;
  Stream& stream;
  Kernels* kernels = nullptr;  // always there for units with collectives of their own
  // Memory until the next Take; kCommunication. As `kernels`.
  StreamScratch* scratch = nullptr;
  absl::string_view label;  // the unit's name
};

// The collectives of one or several units (UnitSpec::collectives, ShardingOptions::collectives), as
// FSDP2's set_custom_all_gather, set_custom_reduce_scatter and set_all_reduce_hook. These here are
// the communicator's. All ranks make the same calls in the same order. What is overridden must
// leave the same values on every rank that gets the same elements: nothing compares them later.
// Exports and checkpoints gather masters past it, and the smaller groups of
// StrategyOptions::post_forward_shard_size, in backward, what it has brought in forward. Used by
// one rank's thread only.
class UnitCollectives {
 public:
  virtual ~UnitCollectives() = default;

  // full[r * mine.numel(), ...) = rank r's `mine`, which may be this rank's slice of `full`.
  virtual absl::Status AllGather(const Tensor& mine, const Tensor& full,
                                 const CollectiveContext& context);
  // mine (+)= this rank's piece of the reduction of `full`; fp32 or of full's type. As
  // Communicator::ReduceScatter, in place too.
  virtual absl::Status ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op,
                                     bool accumulate, const CollectiveContext& context);
  // Of shards across groups, and of replicated parameters.
  virtual absl::Status AllReduce(const Tensor& values, ReduceOp op,
                                 const CollectiveContext& context);
};

// What is done to a shard before it is gathered, and undone after, as FSDP2's
// fsdp_pre_all_gather and fsdp_post_all_gather.
class GatherExtension {
 public:
  virtual ~GatherExtension() = default;
  // Bytes that a rank's part of `numel` elements is encoded in, a multiple of 16.
  virtual int64_t EncodedBytes(int64_t numel, DType dtype) const = 0;
  // encoded: uint8 [EncodedBytes(mine.numel(), mine.dtype())].
  virtual absl::Status Encode(const Tensor& mine, const Tensor& encoded, Kernels& kernels) = 0;
  // encoded: uint8 [pieces * EncodedBytes(full.numel() / pieces, …)], every rank's in order.
  virtual absl::Status Decode(const Tensor& encoded, int pieces, const Tensor& full,
                              Kernels& kernels) = 0;
};

// The communicator's collectives, but gathers as an extension says.
class ExtendedGather : public UnitCollectives {
 public:
  explicit ExtendedGather(std::shared_ptr<GatherExtension> extension)
      : extension_(std::move(extension)) {}
  absl::Status AllGather(const Tensor& mine, const Tensor& full,
                         const CollectiveContext& context) override;

 private:
  std::shared_ptr<GatherExtension> extension_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_UNIT_COLLECTIVES_H_
