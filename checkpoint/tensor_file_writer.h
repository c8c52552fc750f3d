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
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// A tensor that a file is going to hold.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

// Where declared tensors lie one after the other, in the order given, each at a multiple of
// `alignment`, and where the last of them ends, rounded up to one. `path` is for messages:
// InvalidArgument for a repeated name or a size that overflows.
struct TensorLayout {
  TensorEntries entries;
  int64_t data_bytes = 0;
};
absl::StatusOr<TensorLayout> LayOutTensors(const std::string& path,
                                           absl::Span<const TensorDeclaration> tensors,
                                           int64_t alignment = 1);

// A file of a header, which is given whole, and tensors, which arrive in pieces. It appears under
// its name only in Finish; a writer that is destroyed earlier leaves nothing behind.
//
// Write and WriteBytes may be called from several threads at once; Finish and the destructor must
// come after all of them.
class TensorFileWriter {
 public:
  // Creates a temporary file beside `path`, whose directory must exist, and removes those that
  // writers of the same path left behind in processes that were killed. The file will have
  // header.size() + layout.data_bytes bytes; those that belong to no tensor are zero. Ranges count
  // from the end of the header. InvalidArgument for a size that overflows.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(std::string path,
                                                                  std::string header,
                                                                  TensorLayout layout);

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

  // Checks that every byte was written (FailedPrecondition names the first tensor and range that
  // was not), flushes, and renames over `path`. The writer accepts nothing afterwards.
  absl::Status Finish();

 private:
  struct Slot {
    SafetensorsEntry entry;
    RangeSet written;  // of the tensor's bytes
  };

  TensorFileWriter(std::string path, std::string temporary, int64_t data_begin, int fd);
  absl::StatusOr<Slot*> FindSlot(absl::string_view name);
  // Marks bytes of a tensor as written before they are, so that of two concurrent owners one is
  // refused.
  absl::Status Claim(absl::string_view name, Slot& slot, int64_t begin, int64_t end);
  absl::Status CheckComplete() const;

  const std::string path_;
  const std::string temporary_;
  const int64_t data_begin_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_;  // ranges guarded by mutex_
  // A failed write leaves a hole that the claims do not show.
  absl::Status first_error_;  // guarded by mutex_
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_TENSOR_FILE_WRITER_H_
