// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  StateTensor shard;        // the shard that holds the elements
  int64_t shard_begin = 0;  // the place of `begin` in the shard

  int64_t numel() const { return end - begin; }
  int64_t bytes() const { return numel() * static_cast<int64_t>(SizeOf(shard.dtype())); }
};

// "rank-00003-of-00016.safetensors".
std::string ShardFileName(int rank, int world_size);

// The layout of one rank's file, before it is written.
struct ShardPlan {
  std::string id;  // of the save, see CheckpointIndex::id
  int64_t step = 0;
  std::string header;
  std::vector<int64_t> file_begins;  // of each piece, in bytes of the file
  int64_t file_bytes = 0;
};

// Uses the descriptions of `pieces`, not their data. InvalidArgument for a state that has two
// pieces of the same range, or a name that is not UTF-8.
absl::StatusOr<ShardPlan> PlanShard(absl::string_view id, int64_t step,
                                    absl::Span<const StatePiece> pieces);

// Makes the file's image in host memory: plan.file_bytes from `image` on. Pieces belong to `device`
// and are read on its compute stream.
absl::Status CopyShard(Device& device, absl::Span<const StatePiece> pieces, const ShardPlan& plan,
                       uint8_t* image);

struct ShardWriterOptions {
  std::string directory;
  std::string file;                             // its name there
  int64_t block_bytes = kCheckpointBlockBytes;  // a multiple of 16: of every element's size
  // If given, grows as bytes are written, to plan.file_bytes.
  std::atomic<int64_t>* progress = nullptr;
};

// Writes one rank's pieces into a safetensors file, past the page cache if the file system can, and
// flushes it to stable storage. The file appears whole or not at all. Returns its part of the
// index. Errors of the file system pass through (ResourceExhausted: the disk is full).
//
// WriteShard copies the pieces from the device, a few MiB at a time; errors of the device pass
// through. WriteShardImage writes an image without another copy, and uses only the descriptions of
// `pieces`; the image must be aligned to DirectFile::kAlignment.
absl::StatusOr<CheckpointIndex> WriteShard(const ShardWriterOptions& options, Device& device,
                                           absl::Span<const StatePiece> pieces,
                                           const ShardPlan& plan);
absl::StatusOr<CheckpointIndex> WriteShardImage(const ShardWriterOptions& options,
                                                absl::Span<const StatePiece> pieces,
                                                const ShardPlan& plan, const uint8_t* image);

}  // namespace zeroth
