// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensors in files, whatever kind of file it is, for those who look at them.

#ifndef ZEROTH_TOOLS_INSPECT_INSPECTED_H_
#define ZEROTH_TOOLS_INSPECT_INSPECTED_H_

#include <cstdint>
#include <memory>
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
  SafetensorsDType dtype = SafetensorsDType::kF32;
  std::vector<int64_t> shape;
  int64_t numel = 0;
  std::string where;  // the file that has it, or how many have pieces
};

// What a path holds. One thread only.
class Inspected {
 public:
  // A sharded checkpoint's directory, a safetensors file, a directory of such files, or a GGUF
  // file. NotFound or InvalidArgument say what was expected; errors of the files pass through.
  static absl::StatusOr<std::unique_ptr<Inspected>> Open(const std::string& path);
  // Two that are to be compared. Where only one is a GGUF file, its tensors have the names and the
  // layouts that Hugging Face gives them; it holds one tensor at a time in memory then.
  static absl::StatusOr<std::pair<std::unique_ptr<Inspected>, std::unique_ptr<Inspected>>> OpenPair(
      const std::string& a, const std::string& b);
  virtual ~Inspected() = default;

  // By name.
  const std::vector<InspectedTensor>& tensors() const { return tensors_; }
  // A few lines about the whole.
  const std::vector<std::string>& notes() const { return notes_; }
  // The stored bytes of elements [begin, begin + count) of tensors()[index], checked where the file
  // has checksums.
  virtual absl::Status Read(size_t index, int64_t begin, int64_t count,
                            std::vector<uint8_t>& out) = 0;
  // One status for each damage found by reading everything. Unimplemented where there is nothing
  // to check by.
  virtual absl::StatusOr<std::vector<absl::Status>> Verify() = 0;

 protected:
  std::vector<InspectedTensor> tensors_;
  std::vector<std::string> notes_;
};

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_INSPECT_INSPECTED_H_
