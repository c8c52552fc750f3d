// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The index of a sharded checkpoint: index.json.
//
//   step-00000120/
//     index.json                      the place of every element of every tensor, and checksums
//     rank-00000-of-00004.safetensors what one rank wrote: pieces of tensors, 1-D unless whole, in
//     ...                             files that any reader of safetensors opens
//     config.json, ...                carried files, each with a checksum of the whole
//
// Every parameter has named states: "param", and those of an optimizer, "m" and "v". A state has
// one element for every element of the parameter, or for every block of elements. Pieces tile the
// state. Which rank wrote a piece, and under which strategy, does not matter to a reader.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

inline constexpr char kCheckpointIndexName[] = "index.json";
// The state that holds a parameter's values.
inline constexpr char kParameterState[] = "param";
inline constexpr int kCheckpointVersion = 1;
// The longest index, or manifest of a shard, that readers accept, in bytes. Checksums take 16
// digits for each block of 2^20 bytes, so no model needs this much.
inline constexpr size_t kMaxIndexBytes = size_t{1} << 31;
// Bytes of a piece that share a checksum; checking one element reads this many.
inline constexpr int64_t kCheckpointBlockBytes = int64_t{1} << 20;

struct CheckpointFile {
  std::string name;  // in the checkpoint's directory
  int64_t bytes = 0;
  // Bytes before the data, which no piece covers. In a file without pieces, all of its bytes.
  int64_t header_bytes = 0;
  uint64_t header_checksum = 0;
};

// The elements [begin, end) of a flattened tensor.
struct CheckpointPiece {
  int file = 0;            // index in CheckpointIndex::files
  int64_t file_begin = 0;  // byte of the file that element `begin` starts at
  int64_t begin = 0;
  int64_t end = 0;
  // One for each block_bytes of the piece, from its first byte on; the last block may be shorter.
  std::vector<uint64_t> checksums;
};

struct CheckpointTensor {
  SafetensorsDType dtype = SafetensorsDType::kF32;
  // Number of elements of the parameter that share one element of this tensor.
  int64_t block = 1;
  std::vector<CheckpointPiece> pieces;  // by element
};

struct CheckpointParameter {
  Shape shape;

  int64_t NumelOf(const CheckpointTensor& tensor) const {
    return shape.numel() / tensor.block + (shape.numel() % tensor.block != 0 ? 1 : 0);
  }
  std::map<std::string, CheckpointTensor, std::less<>> states;
};

// A value type.
struct CheckpointIndex {
  std::string id;  // of the save; also in the metadata of all its files
  int64_t step = 0;
  int64_t block_bytes = kCheckpointBlockBytes;
  // Whatever else the writer needs to resume: any object. Strings that are not UTF-8 are repaired.
  nlohmann::json training = nlohmann::json::object();
  std::vector<CheckpointFile> files;
  std::map<std::string, CheckpointParameter, std::less<>> parameters;

  // The index as JSON, with a checksum of itself.
  std::string ToText() const;
  // The inverse. InvalidArgument for text that is not JSON, that was changed since it was written,
  // or that has a range outside its file or tensor; names the key of `where`, what was found and
  // what was expected. Unimplemented for an intact index of another format, and for an index of a
  // later version. CheckComplete checks whether pieces tile their tensors.
  static absl::StatusOr<CheckpointIndex> Parse(absl::string_view text, absl::string_view where);

  // Adds the files and pieces of `shard`, one rank's part of the same save. InvalidArgument names a
  // contradiction: another save, shape or dtype.
  absl::Status Merge(CheckpointIndex shard);
  // InvalidArgument names the first tensor whose pieces leave a gap or overlap, and the elements,
  // or a parameter without a "param".
  absl::Status CheckComplete() const;
};

}  // namespace zeroth
