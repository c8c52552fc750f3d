// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/state_passes.h"

#include <algorithm>
#include <numeric>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"

namespace zeroth {
namespace {

// Returns the number of elements of an operand for `numel` elements of its pass.
int64_t Blocks(const StatePass::Operand& operand, int64_t numel) {
  return (numel + operand.block - 1) / operand.block;
}

int64_t NumelOf(const StatePass& pass) {
  ZEROTH_CHECK(!pass.operands.empty());
  ZEROTH_CHECK(pass.operands.front().block == 1);
  const int64_t numel = pass.operands.front().state.numel();
  for (const StatePass::Operand& operand : pass.operands) {
    ZEROTH_CHECK(operand.state.defined() && operand.state.numel() == Blocks(operand, numel));
  }
  return numel;
}

// Returns the staging tensors for `numel` elements of a pass, by operand; empty for those in
// memory.
std::vector<PackedTensor> Staging(const StatePass& pass, int64_t numel) {
  std::vector<PackedTensor> staging;
  for (const StatePass::Operand& operand : pass.operands) {
    staging.push_back(
        {operand.state.is_offloaded() ? Blocks(operand, numel) : 0, operand.state.dtype()});
  }
  return staging;
}

}  // namespace

bool StatePass::is_staged() const {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& operand) { return operand.state.is_offloaded(); });
}

absl::StatusOr<std::unique_ptr<StatePasses>> StatePasses::Create(Device& device,
                                                                 int64_t chunk_numel,
                                                                 bool is_offloaded) {
  ZEROTH_CHECK(chunk_numel >= 1);
  std::unique_ptr<StatePasses> passes(new StatePasses(device, chunk_numel));
  if (!is_offloaded) return passes;
  ZEROTH_ASSIGN_OR_RETURN(passes->reader_, device.CreateStream("offload read"));
  ZEROTH_ASSIGN_OR_RETURN(passes->writer_, device.CreateStream("offload write"));
  return passes;
}

StatePasses::~StatePasses() = default;

int64_t StatePasses::ChunkNumel(const StatePass& pass) const {
  int64_t multiple = 1;
  for (const StatePass::Operand& operand : pass.operands) {
    ZEROTH_CHECK(operand.block >= 1);
    multiple = std::lcm(multiple, operand.block);
  }
  return std::max(multiple, chunk_numel_ / multiple * multiple);
}

std::vector<StatePasses::Chunk> StatePasses::Cut(absl::Span<const StatePass> passes) const {
  std::vector<Chunk> chunks;
  for (const StatePass& pass : passes) {
    const int64_t numel = NumelOf(pass);
    if (!pass.is_staged()) chunks.push_back({&pass, 0, numel});
    const int64_t chunk = ChunkNumel(pass);
    for (int64_t begin = 0; begin < numel && pass.is_staged(); begin += chunk) {
      chunks.push_back({&pass, begin, std::min(chunk, numel - begin)});
    }
  }
  return chunks;
}

int64_t StatePasses::SlotBytes(absl::Span<const StatePass> passes) const {
  int64_t largest = 0;
  for (const StatePass& pass : passes) {
    const int64_t numel = std::min(ChunkNumel(pass), NumelOf(pass));
    largest = std::max(largest, PackedBytes(Staging(pass, numel)));
  }
  return largest;
}

std::vector<Tensor> StatePasses::Tensors(const Chunk& chunk, const Tensor& slot) const {
  std::vector<Tensor> tensors = PackedIn(slot, Staging(*chunk.pass, chunk.numel));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StatePass::Operand& operand = chunk.pass->operands[i];
    if (operand.state.is_offloaded()) continue;
    tensors[i] = operand.state.tensor().View(chunk.begin / operand.block,
                                             Shape({Blocks(operand, chunk.numel)}));
  }
  return tensors;
}

absl::Status StatePasses::Run(absl::Span<const StatePass> passes) {
  const std::vector<Chunk> chunks = Cut(passes);
  const int64_t slot_bytes = SlotBytes(passes);
  std::vector<Slot> slots(kSlots);
  if (slot_bytes > 0) {
    ZEROTH_CHECK(reader_ != nullptr);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor staging,
                            Allocate(device_, kSlots * slot_bytes, DType::kUInt8,
                                     MemoryCategory::kOffloadStaging, *reader_));
    for (int i = 0; i < kSlots; ++i) {
      slots[static_cast<size_t>(i)].memory =
          staging.ViewAs(i * slot_bytes, Shape({slot_bytes}), staging.dtype());
    }
  }
  const absl::Status status = RunStaged(chunks, slots);
  if (!status.ok() && slot_bytes > 0) {
    // `status` has the error; the streams only have to stop using the memory.
    for (Stream* stream : {&device_.compute_stream(), reader_.get(), writer_.get()}) {
      stream->Synchronize().IgnoreError();
    }
  }
  return status;
}

absl::Status StatePasses::RunStaged(absl::Span<const Chunk> chunks, std::vector<Slot>& slots) {
  const auto slot_of = [&](size_t i) -> Slot& { return slots[i % slots.size()]; };
  // Reads one chunk ahead: with the chunk being written, all slots are in use.
  std::vector<std::shared_ptr<Event>> arrived(chunks.size());
  if (!chunks.empty()) ZEROTH_RETURN_IF_ERROR(Read(chunks[0], slot_of(0), arrived[0]));
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (i + 1 < chunks.size()) {
      ZEROTH_RETURN_IF_ERROR(Read(chunks[i + 1], slot_of(i + 1), arrived[i + 1]));
    }
    ZEROTH_RETURN_IF_ERROR(Compute(chunks[i], arrived[i], slot_of(i)));
  }
  for (const Slot& slot : slots) {
    if (slot.free != nullptr) ZEROTH_RETURN_IF_ERROR(device_.compute_stream().Wait(slot.free));
  }
  return absl::OkStatus();
}

absl::Status StatePasses::Read(const Chunk& chunk, const Slot& slot,
                               std::shared_ptr<Event>& arrived) {
  if (!chunk.pass->is_staged()) return absl::OkStatus();
  if (slot.free != nullptr) ZEROTH_RETURN_IF_ERROR(reader_->Wait(slot.free));
  const std::vector<Tensor> tensors = Tensors(chunk, slot.memory);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StatePass::Operand& operand = chunk.pass->operands[i];
    if (!operand.state.is_offloaded()) continue;
    ZEROTH_RETURN_IF_ERROR(operand.state.Read(chunk.begin / operand.block, tensors[i], *reader_));
  }
  ZEROTH_ASSIGN_OR_RETURN(arrived, reader_->Record());
  return absl::OkStatus();
}

absl::Status StatePasses::Compute(const Chunk& chunk, const std::shared_ptr<Event>& arrived,
                                  Slot& slot) {
  Stream& compute = device_.compute_stream();
  const std::vector<Tensor> tensors = Tensors(chunk, slot.memory);
  if (!chunk.pass->is_staged()) return chunk.pass->body(chunk.begin, tensors);
  ZEROTH_RETURN_IF_ERROR(compute.Wait(arrived));
  ZEROTH_RETURN_IF_ERROR(chunk.pass->body(chunk.begin, tensors));
  ZEROTH_ASSIGN_OR_RETURN(slot.free, compute.Record());
  bool writes = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StatePass::Operand& operand = chunk.pass->operands[i];
    if (!operand.written || !operand.state.is_offloaded()) continue;
    if (!writes) ZEROTH_RETURN_IF_ERROR(writer_->Wait(slot.free));
    writes = true;
    ZEROTH_RETURN_IF_ERROR(operand.state.Write(chunk.begin / operand.block, tensors[i], *writer_));
  }
  if (!writes) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(slot.free, writer_->Record());
  return absl::OkStatus();
}

}  // namespace zeroth
