// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on flat state wherever it lies: what is offloaded passes through memory in chunks,
// read ahead and written behind while the chunk in between is computed on.

#ifndef ZEROTH_STRATEGIES_STATE_PASSES_H_
#define ZEROTH_STRATEGIES_STATE_PASSES_H_

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

// Element-wise work on several pieces of state.
struct StatePass {
  struct Operand {
    StateTensor state;
    bool written = false;  // the body changes it
    // Elements of the pass that share one of the state's, as blocks share a scale: [n] elements
    // come with ceil(n / block) of these. At least 1.
    int64_t block = 1;
  };
  // Some operand is offloaded: the body is called with chunks.
  bool is_staged() const;

  std::vector<Operand> operands;  // the first has block 1: the pass is as long as that
  // Enqueues, on the device's compute stream, the work on elements [begin, begin + numel of the
  // first tensor), given as one tensor for each operand; `begin` is a multiple of every block.
  std::function<absl::Status(int64_t begin, absl::Span<const Tensor> chunk)> body;
};

// Runs passes. Used by one rank's thread only.
class StatePasses {
 public:
  // The chunk that is computed on, the one that is read ahead and the one that is written back.
  static constexpr int kSlots = 3;

  // `chunk_numel` is at least 1. Streams are made only if state `is_offloaded`.
  static absl::StatusOr<std::unique_ptr<StatePasses>> Create(Device& device, int64_t chunk_numel,
                                                             bool is_offloaded);
  // Waits for transfers.
  ~StatePasses();
  StatePasses(const StatePasses&) = delete;
  StatePasses& operator=(const StatePasses&) = delete;

  // Each pass after the other, in the order of the compute stream, which afterwards is behind every
  // transfer. A pass whose operands are all in memory is one call of its body with the whole;
  // others are divided into chunks. Meanwhile takes kSlots times a chunk of every offloaded operand
  // of the pass that has most of them. After an error nothing is under way, and what the passes
  // write is undefined.
  absl::Status Run(absl::Span<const StatePass> passes);

 private:
  struct Chunk {
    const StatePass* pass;
    int64_t begin;
    int64_t numel;
    bool staged;
  };
  // A third of the staging memory, and when its last chunk has left it.
  struct Slot {
    Tensor memory;
    std::shared_ptr<Event> free;
  };

  StatePasses(Device& device, int64_t chunk_numel) : device_(device), chunk_numel_(chunk_numel) {}

  // Of a pass's chunks: as configured, but whole blocks, and at least one.
  int64_t ChunkNumel(const StatePass& pass) const;
  std::vector<Chunk> Cut(absl::Span<const StatePass> passes) const;
  int64_t SlotBytes(absl::Span<const StatePass> passes) const;
  std::vector<Tensor> Tensors(const Chunk& chunk, const Tensor& slot) const;
  absl::Status RunStaged(absl::Span<const Chunk> chunks, std::vector<Slot>& slots);
  absl::Status Read(const Chunk& chunk, const Slot& slot, std::shared_ptr<Event>& arrived);
  absl::Status Compute(const Chunk& chunk, const std::shared_ptr<Event>& arrived, Slot& slot);

  Device& device_;
  const int64_t chunk_numel_;
  // Two, since links carry both ways at once.
  std::unique_ptr<Stream> reader_;
  std::unique_ptr<Stream> writer_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_STATE_PASSES_H_
