// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The collectives on a unit's flat buffers. Override them to add an algorithm that works under
// every transport.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/buffer_set.h"

namespace zeroth {

// The context of one collective, which enqueues all of its work on `stream`, on which `kernels`
// run.
struct CollectiveContext {
  Communicator& group;
  Stream& stream;
  // Neither is null for units with custom collectives. The scratch is kCommunication memory.
  Kernels* kernels = nullptr;
  StreamScratch* scratch = nullptr;
  absl::string_view label;  // the unit's name
};

// The collectives of one or several units (UnitSpec::collectives, ShardingOptions::collectives), as
// FSDP2's set_custom_all_gather, set_custom_reduce_scatter and set_all_reduce_hook. This base class
// calls the communicator; each call is for one segment of the unit. All ranks make the same calls
// in the same order. An override must leave the same values on all ranks that receive the same
// elements. Not used for masters (exports, checkpoints), for gathers of parameters that keep their
// bits (Unit::keeps_bits), nor for the gather in backward under
// StrategyOptions::post_forward_shard_size. Used by one rank's thread only.
class UnitCollectives {
 public:
  virtual ~UnitCollectives() = default;

  // full[r * mine.numel(), ...) = rank r's `mine`, which may be this rank's slice of `full`.
  virtual absl::Status AllGather(const Tensor& mine, const Tensor& full,
                                 const CollectiveContext& context);
  // mine (+)= this rank's piece of the reduction of `full`; fp32 or of full's type. May be in
  // place, as Communicator::ReduceScatter.
  virtual absl::Status ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op,
                                     bool accumulate, const CollectiveContext& context);
  // Reduces shards across groups, and gradients of replicated parameters.
  virtual absl::Status AllReduce(const Tensor& values, ReduceOp op,
                                 const CollectiveContext& context);
};

// Encodes a shard before it is gathered, and decodes the gathered parts, as FSDP2's
// fsdp_pre_all_gather and fsdp_post_all_gather.
class GatherExtension {
 public:
  virtual ~GatherExtension() = default;
  // Returns the bytes that encode a rank's `numel` elements, a multiple of 16.
  virtual int64_t EncodedBytes(int64_t numel, DType dtype) const = 0;
  // encoded: uint8 [EncodedBytes(mine.numel(), mine.dtype())].
  virtual absl::Status Encode(const Tensor& mine, const Tensor& encoded, Kernels& kernels) = 0;
  // encoded: uint8 [pieces * EncodedBytes(full.numel() / pieces, …)], in the order of ranks.
  virtual absl::Status Decode(const Tensor& encoded, int pieces, const Tensor& full,
                              Kernels& kernels) = 0;
};

// The communicator's collectives, with all-gathers encoded by an extension.
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
