// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared by the writers of all tensor file formats, once the format has placed each tensor: pieces
// arrive in any order, every byte is written exactly once, and the file appears whole or not at
// all.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// A set of integers, held as disjoint half-open ranges. Adjacent ranges are merged, so writing a
// tensor front to back in a million pieces costs one node.
class RangeSet {
 public:
  // Adds [begin, end) and returns true if none of it is in the set. Otherwise changes nothing and
  // returns false.
  bool Insert(int64_t begin, int64_t end);

  // Returns the first maximal range inside [0, size) that is not in the set; empty if there is
  // none.
  std::optional<std::pair<int64_t, int64_t>> FirstGap(int64_t size) const;

 private:
  std::map<int64_t, int64_t> ranges_;  // begin -> end
};

// A tensor of a file to be written.
struct TensorDeclaration {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

// The places of the tensors in a file.
struct TensorLayout {
  TensorEntries entries;
  int64_t data_bytes = 0;  // the end of the last tensor, rounded up to the alignment
};
// Lays out tensors one after the other in the given order, each at a multiple of `alignment`.
// `path` is for messages. InvalidArgument for a repeated name or a size that overflows.
absl::StatusOr<TensorLayout> LayOutTensors(const std::string& path,
                                           absl::Span<const TensorDeclaration> tensors,
                                           int64_t alignment = 1);

// Writes a file: a header, which is given whole, and tensors, which arrive in pieces. Finish gives
// the file its name; a writer that is destroyed earlier leaves nothing behind.
//
// Several threads may call Write and WriteBytes at once; Finish and the destructor must come after
// all of them.
class TensorFileWriter {
 public:
  // Creates a temporary file beside `path`, whose directory must exist. Removes temporary files of
  // the same path that killed processes left behind. The file has header.size() + layout.data_bytes
  // bytes; bytes that belong to no tensor are zero. Ranges count from the end of the header.
  // InvalidArgument for a size that overflows.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(std::string path,
                                                                  std::string header,
                                                                  TensorLayout layout);

  ~TensorFileWriter();

  // Writes elements [begin, begin + values.size()) of the flattened tensor, rounded to its declared
  // floating-point type. NotFound for an undeclared name, InvalidArgument for an integer tensor,
  // OutOfRange for elements outside the tensor, AlreadyExists for an element that was written
  // before, which means that two ranks claim it.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values);

  // Writes bytes [begin, begin + bytes.size()) of a tensor of any type, little-endian.
  absl::Status WriteBytes(absl::string_view name, int64_t begin, absl::Span<const uint8_t> bytes);

  // Checks that every byte was written, flushes, and renames over `path`. FailedPrecondition names
  // the first tensor and range that were not written. The writer accepts nothing afterwards.
  absl::Status Finish();

 private:
  struct Slot {
    SafetensorsEntry entry;
    RangeSet written;  // of the tensor's bytes
  };

  TensorFileWriter(std::string path, TemporaryPath temporary, int64_t data_begin);
  absl::StatusOr<Slot*> FindSlot(absl::string_view name);
  // Reserves bytes of a tensor before they are written, so that of two concurrent writers of the
  // same bytes the second is refused.
  absl::Status ReserveBytes(absl::string_view name, Slot& slot, int64_t begin, int64_t end);
  absl::Status CheckComplete() const;

  const std::string path_;
  const std::string temporary_;
  const int64_t data_begin_;
  FileDescriptor file_;
  mutable std::mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_;  // ranges guarded by mutex_
  // A failed write leaves a hole that `written` does not show, so Finish must return its error.
  absl::Status first_error_;  // guarded by mutex_
};

// The layout of a safetensors file: the header, then the data.
struct SafetensorsLayout {
  std::string header;    // its length is a multiple of 64
  TensorLayout tensors;  // in the order of names, without gaps
};

// Lays out a safetensors file. Equal declarations give equal headers. `path` is for messages.
// InvalidArgument for an empty, repeated, reserved or non-UTF-8 name, a size that overflows, or
// more than a header may hold.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata);

// Writers of safetensors files. Equal declarations give equal bytes: tensors are sorted by name,
// and the data begins 64-byte aligned.
struct SafetensorsWriter {
  // The metadata without which transformers does not load a file.
  static std::map<std::string, std::string> DefaultMetadata() { return {{"format", "pt"}}; }

  // Creates a temporary file beside `path`, whose directory must exist. InvalidArgument as
  // LayOutSafetensors says.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path, std::vector<TensorDeclaration> tensors,
      const std::map<std::string, std::string>& metadata = DefaultMetadata());
};

}  // namespace zeroth
