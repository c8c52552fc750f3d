// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/range_set.h"
#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// A tensor that a writer is going to receive.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

// Writes a safetensors file piece by piece, in any order, without ever holding a tensor. The file
// appears under its name only in Finish, complete; a writer that is destroyed earlier leaves
// nothing behind. Equal declarations give equal bytes: tensors lie sorted by name, the data begins
// 64-byte aligned.
//
// Write and WriteBytes may be called from several threads at once (ranks writing their shards);
// Finish and the destructor must come after all of them.
class SafetensorsWriter {
 public:
  // What transformers wants to see before it loads a file.
  static std::map<std::string, std::string> DefaultMetadata() { return {{"format", "pt"}}; }

  // Creates a temporary file beside `path`, whose directory must exist. InvalidArgument for an
  // empty, repeated, reserved or non-UTF-8 name or a size that overflows.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, std::vector<TensorDeclaration> tensors,
      std::map<std::string, std::string> metadata = DefaultMetadata());

  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  // Elements [begin, begin + values.size()) of the flattened tensor, rounded to its declared
  // floating-point type. NotFound for an undeclared name, InvalidArgument for an integer tensor,
  // OutOfRange for elements outside the tensor, AlreadyExists for an element that was written
  // before: two owners of one element are a bug worth hearing about.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values);

  // The same for any type, as raw little-endian bytes: [begin, begin + bytes.size()) of the
  // tensor's bytes.
  absl::Status WriteBytes(absl::string_view name, int64_t begin, absl::Span<const uint8_t> bytes);

  // Byte of the file that a tensor's data begin at; NotFound for an undeclared name.
  absl::StatusOr<int64_t> FileOffset(absl::string_view name) const;
  // All bytes of the file before the data.
  const std::string& header() const { return header_; }

  // Checks that every byte was written (FailedPrecondition names the first tensor and range that
  // was not), flushes, and renames over `path`. The writer accepts nothing afterwards.
  absl::Status Finish();

 private:
  struct Slot {
    SafetensorsEntry entry;
    RangeSet written;  // of the tensor's bytes
  };

  SafetensorsWriter(std::string path, std::string temporary, int fd);
  absl::Status WriteHeader(const std::map<std::string, std::string>& metadata);
  absl::StatusOr<Slot*> FindSlot(absl::string_view name);
  // Marks bytes of a tensor as written before they are, so that of two concurrent owners one is
  // refused.
  absl::Status Claim(absl::string_view name, Slot& slot, int64_t begin, int64_t end);
  absl::Status CheckComplete() const;

  const std::string path_;
  const std::string temporary_;
  int fd_ = -1;
  std::string header_;
  int64_t data_begin_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_;  // ranges guarded by mutex_
  // A failed write leaves a hole that the claims do not show.
  absl::Status first_error_;  // guarded by mutex_
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
