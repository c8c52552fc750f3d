// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on flat state, in memory or in an offload store. Offloaded state passes through memory
// in chunks: while one is computed on, the next is read and the previous one is written.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// An element-wise computation on several state tensors.
struct StatePass {
  struct Operand {
    StateTensor state;
    bool written = false;  // the body changes it
    // Elements of the pass that share one element of this state, as those of a block share a scale:
    // n elements of the pass use ceil(n / block) of these. At least 1.
    int64_t block = 1;
  };
  // True if an operand is offloaded: then the body is called for each chunk.
  bool is_staged() const;

  std::vector<Operand> operands;  // the first has block 1, and the length of the pass
  // Enqueues on the compute stream the work on elements [begin, begin + chunk[0].numel()). `chunk`
  // has one tensor for each operand; `begin` is a multiple of every block.
  std::function<absl::Status(int64_t begin, absl::Span<const Tensor> chunk)> body;
};

// Runs passes. Used by one rank's thread only.
class StatePasses {
 public:
  // One chunk is read, one is computed on, and one is written.
  static constexpr int kSlots = 3;

  // `chunk_numel` is at least 1. Streams are made only if some state `is_offloaded`.
  static absl::StatusOr<std::unique_ptr<StatePasses>> Create(Device& device, int64_t chunk_numel,
                                                             bool is_offloaded);
  // Waits for transfers.
  ~StatePasses();
  StatePasses(const StatePasses&) = delete;
  StatePasses& operator=(const StatePasses&) = delete;

  // Runs one pass after the other, in the order of the compute stream, which then waits for every
  // transfer. The body of a pass whose operands are all in memory is called once. Staging memory
  // holds kSlots chunks of each offloaded operand of the largest pass. After an error all streams
  // are idle, and the written operands are undefined.
  absl::Status Run(absl::Span<const StatePass> passes);

 private:
  struct Chunk {
    const StatePass* pass;
    int64_t begin;
    int64_t numel;
  };
  // A third of the staging memory, and the event after which it is free.
  struct Slot {
    Tensor memory;
    std::shared_ptr<Event> free;
  };

  StatePasses(Device& device, int64_t chunk_numel) : device_(device), chunk_numel_(chunk_numel) {}

  // Elements of a pass's chunks: as configured, but a multiple of every block, and at least one.
  int64_t ChunkNumel(const StatePass& pass) const;
  std::vector<Chunk> Cut(absl::Span<const StatePass> passes) const;
  int64_t SlotBytes(absl::Span<const StatePass> passes) const;
  std::vector<Tensor> Tensors(const Chunk& chunk, const Tensor& slot) const;
  absl::Status RunStaged(absl::Span<const Chunk> chunks, std::vector<Slot>& slots);
  absl::Status Read(const Chunk& chunk, const Slot& slot, std::shared_ptr<Event>& arrived);
  absl::Status Compute(const Chunk& chunk, const std::shared_ptr<Event>& arrived, Slot& slot);

  Device& device_;
  const int64_t chunk_numel_;
  // Two streams, since links are full duplex.
  std::unique_ptr<Stream> reader_;
  std::unique_ptr<Stream> writer_;
};

}  // namespace zeroth
