// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SHARDED_SHARD_WRITER_H_
#define ZEROTH_CHECKPOINT_SHARDED_SHARD_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/state_tensor.h"

namespace zeroth {

// The elements [begin, end) of one state of a parameter.
struct StatePiece {
  std::string parameter;
  Shape shape;  // of the whole parameter
  std::string state;
  int64_t block = 1;  // elements of the parameter for each of the state, see CheckpointTensor
  int64_t begin = 0;
  int64_t end = 0;
  StateTensor shard;        // what they are part of
  int64_t shard_begin = 0;  // the place of `begin` in it

  int64_t numel() const { return end - begin; }
  int64_t bytes() const { return numel() * static_cast<int64_t>(SizeOf(shard.dtype())); }
};

// "rank-00003-of-00016.safetensors".
std::string ShardFileName(int rank, int world_size);

struct ShardWriterOptions {
  std::string directory;
  std::string file;  // in it
  std::string id;    // of the save, see CheckpointIndex::id
  int64_t step = 0;
  int64_t block_bytes = kCheckpointBlockBytes;  // a multiple of 16: of every element's size
  // If given, grows by the bytes written, as they are.
  std::atomic<int64_t>* progress = nullptr;
};

// The bytes [begin, begin + count) of piece `piece`, in host memory that stays until the next call.
using PieceReader = std::function<absl::StatusOr<absl::Span<const uint8_t>>(
    size_t piece, int64_t begin, int64_t count)>;
// Copies from where the pieces are, a block at a time, on the compute stream of `device`, whose
// they are. All outlive it.
PieceReader DeviceReader(Device& device, absl::Span<const StatePiece> pieces);

// Writes one rank's pieces into a safetensors file, block by block, and flushes it to stable
// storage: it exists whole or not at all. Returns its part of the index. Errors of the file system
// (ResourceExhausted: the disk is full) and of `reader` pass through; AlreadyExists for a state
// that has two pieces with the same range. Only the descriptions in `pieces` are used, not their
// data.
absl::StatusOr<CheckpointIndex> WriteShard(const ShardWriterOptions& options,
                                           absl::Span<const StatePiece> pieces,
                                           const PieceReader& reader);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_SHARD_WRITER_H_
