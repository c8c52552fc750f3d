// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the writers of every tensor file format have in common once the format has decided where
// each tensor lies: pieces in any order, no byte written twice or never, the file whole or not at
// all.

#ifndef ZEROTH_CHECKPOINT_TENSOR_FILE_WRITER_H_
#define ZEROTH_CHECKPOINT_TENSOR_FILE_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/range_set.h"
#include "zeroth/checkpoint/safetensors_format.h"

namespace zeroth {

// A file of a header, which is given whole, and tensors, which arrive in pieces. It appears under
// its name only in Finish; a writer that is destroyed earlier leaves nothing behind.
//
// Write and WriteBytes may be called from several threads at once; Finish and the destructor must
// come after all of them.
class TensorFileWriter {
 public:
  // By name; the ranges count from the end of the header and do not overlap.
  using Tensors = std::map<std::string, SafetensorsEntry, std::less<>>;

  // Creates a temporary file beside `path`, whose directory must exist, and removes those that
  // writers of the same path left behind in processes that were killed. The file will have
  // header.size() + data_bytes bytes; those that belong to no tensor are zero.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(std::string path,
                                                                  std::string header,
                                                                  Tensors tensors,
                                                                  int64_t data_bytes);

  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;
  ~TensorFileWriter();

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
  const std::string& header() const { return header_; }

  // Checks that every byte was written (FailedPrecondition names the first tensor and range that
  // was not), flushes, and renames over `path`. The writer accepts nothing afterwards.
  absl::Status Finish();

 private:
  struct Slot {
    SafetensorsEntry entry;
    RangeSet written;  // of the tensor's bytes
  };

  TensorFileWriter(std::string path, std::string temporary, std::string header, int fd);
  absl::StatusOr<Slot*> FindSlot(absl::string_view name);
  // Marks bytes of a tensor as written before they are, so that of two concurrent owners one is
  // refused.
  absl::Status Claim(absl::string_view name, Slot& slot, int64_t begin, int64_t end);
  absl::Status CheckComplete() const;

  const std::string path_;
  const std::string temporary_;
  const std::string header_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_;  // ranges guarded by mutex_
  // A failed write leaves a hole that the claims do not show.
  absl::Status first_error_;  // guarded by mutex_
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_TENSOR_FILE_WRITER_H_
