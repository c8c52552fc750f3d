// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensors of checkpoints and model files of any format, for inspection, and reports about them.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_format.h"

namespace zeroth {

struct InspectedTensor {
  std::string name;
  // The type of what `read` returns: F32 if quantised blocks are unpacked.
  SafetensorsDType dtype = SafetensorsDType::kF32;
  // The type in the file, for people: dtype's name, or that of quantised blocks.
  std::string type;
  std::vector<int64_t> shape;
  int64_t numel = 0;
  std::string where;  // the file with the tensor, or the number of pieces
  // Reads the bytes of elements [begin, begin + count), as stored unless they are quantised blocks.
  // Verifies checksums if the file has them. Null for blocks that cannot be unpacked.
  std::function<absl::Status(int64_t begin, int64_t count, std::vector<uint8_t>& out)> read;
  // Reads the bytes [begin, end) of quantised blocks, and none beyond the tensor's end. Null for
  // other tensors, and for one in Hugging Face's layout.
  std::function<absl::StatusOr<std::vector<uint8_t>>(int64_t begin, int64_t end)> read_blocks = {};
  bool is_state = false;  // of the optimizer, or the average: not weights
};

// The tensors at a path. One thread only.
struct InspectedFile {
  // Opens the directory of a sharded checkpoint, a safetensors file, a directory of such files, or
  // a GGUF file. NotFound and InvalidArgument say what was expected. Also the errors of the files.
  static absl::StatusOr<InspectedFile> Open(const std::string& path);
  // Opens two paths for a comparison. If only one is a GGUF file, its tensors get Hugging Face's
  // names and layouts, and it holds one tensor at a time in memory.
  static absl::StatusOr<std::pair<InspectedFile, InspectedFile>> OpenPair(const std::string& a,
                                                                          const std::string& b);

  std::vector<InspectedTensor> tensors;  // of each file, sorted by name
  std::vector<std::string> notes;        // lines about the file or checkpoint as a whole
  // Reads everything and returns a status for each damage. Unimplemented if the format has no
  // checksums.
  std::function<absl::StatusOr<std::vector<absl::Status>>()> verify;
};

// Returns a line for each tensor: name, type, shape, location, and if `norms`, its Euclidean norm
// and largest magnitude, for which all elements are read. Types that do not convert to float32 have
// neither. Quantised blocks have those of their values.
absl::StatusOr<std::string> TableOf(const InspectedFile& file, bool norms);

// Reads every byte of `file` and describes the damage. Sets `damaged` to whether there is any.
std::string VerifyReport(const InspectedFile& file, bool& damaged);

// Describes how two files differ: tensors that only one has, and tensors of another type or shape.
// For tensors with other bits (with other values, if the types differ) it says how many elements
// differ and by how much. Quantised tensors of one type are equal if their blocks are. If not,
// their values are compared, unless Zeroth cannot unpack the type. Sets `differ` to whether there
// is any difference. The state of a checkpoint, besides its weights, is compared only with another
// checkpoint's.
absl::StatusOr<std::string> DiffReport(const InspectedFile& a, const InspectedFile& b,
                                       bool& differ);

}  // namespace zeroth
