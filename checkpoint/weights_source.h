// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_WEIGHTS_SOURCE_H_
#define ZEROTH_CHECKPOINT_WEIGHTS_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// Named tensors that can be read piece by piece, so that every rank reads only the ranges that it
// owns. Implementations are immutable after opening and thread-safe: the ranks of one process share
// one source.
class WeightsSource {
 public:
  virtual ~WeightsSource() = default;

  // Sorted by bytes.
  virtual std::vector<std::string> names() const = 0;

  // The entry of tensor `name`, owned by the source; null if there is none.
  virtual const SafetensorsEntry* Find(absl::string_view name) const = 0;

  // out[i] = element begin + i of the flattened row-major tensor, as float32 (F64 rounds to
  // nearest; F32, F16 and BF16 are exact). Touches only those elements. NotFound if there is no
  // such tensor, InvalidArgument if its type does not convert, OutOfRange if the range leaves it;
  // messages name the file, the tensor and its shape. RandomAccessFile's errors, as for a
  // file that was cut short meanwhile.
  virtual absl::Status ReadElements(absl::string_view name, int64_t begin,
                                    absl::Span<float> out) const = 0;

  // What messages call this source: a path.
  virtual const std::string& description() const = 0;

  // The shape of `name`, or NotFound with the names that come nearest.
  absl::StatusOr<Shape> ShapeOf(absl::string_view name) const;

  // All elements of `name`; InvalidArgument if its shape is not `expected`.
  absl::StatusOr<std::vector<float>> ReadAll(absl::string_view name, const Shape& expected) const;

 protected:
  // ReadElements of a tensor that this source has, whose entry's range counts from `data_begin` in
  // `file`.
  absl::Status ReadStored(const RandomAccessFile& file, int64_t data_begin, absl::string_view name,
                          const SafetensorsEntry& entry, int64_t begin,
                          absl::Span<float> out) const;
  // Bytes [begin, end) of such a tensor, of any type, as they are stored; none beyond its end.
  static absl::StatusOr<std::vector<uint8_t>> ReadRaw(const RandomAccessFile& file,
                                                      int64_t data_begin,
                                                      const SafetensorsEntry& entry, int64_t begin,
                                                      int64_t end);

  // NotFound for `name`, with up to three present names that share its beginning or ending, and the
  // total count.
  absl::Status MissingTensor(absl::string_view name) const;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_WEIGHTS_SOURCE_H_
