// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// True for the name of a model's token embedding, as families of Hugging Face call it.
bool IsTokenEmbedding(absl::string_view parameter);

// Named tensors that are read piece by piece, so that every rank reads only the ranges that it
// owns. Immutable after opening and thread-safe: the ranks of one process share one source.
class WeightsSource {
 public:
  virtual ~WeightsSource() = default;

  // The name of this source in messages: a path.
  const std::string& description() const { return description_; }
  // The tensors by name.
  const TensorEntries& tensors() const { return tensors_; }
  // Sorted by bytes.
  std::vector<std::string> names() const;
  // The entry of tensor `name`, owned by the source; null if there is no such tensor.
  const SafetensorsEntry* Find(absl::string_view name) const;
  // The name that a model's tensor has here: some published files leave out the prefix
  // "transformer" or "model". Returns `name` itself if neither is here.
  std::string StoredName(const std::string& name) const;

  // out[i] = element begin + i of the flattened row-major tensor, as float32 (F64 rounds to
  // nearest; F32, F16 and BF16 are exact). Reads no other elements. NotFound if there is no such
  // tensor, InvalidArgument if its type does not convert, OutOfRange if the range leaves it;
  // messages name the file, the tensor and its shape. Also the errors of RandomAccessFile, for
  // example if the file has been truncated since it was opened.
  virtual absl::Status ReadElements(absl::string_view name, int64_t begin,
                                    absl::Span<float> out) const = 0;

  // The shape of `name`; NotFound lists the most similar names.
  absl::StatusOr<Shape> ShapeOf(absl::string_view name) const;

  // All elements of `name`; InvalidArgument if its shape is not `expected`.
  absl::StatusOr<std::vector<float>> ReadAll(absl::string_view name, const Shape& expected) const;

 protected:
  explicit WeightsSource(std::string description, TensorEntries tensors = {})
      : description_(std::move(description)), tensors_(std::move(tensors)) {}

  // NotFound for `name`, with the total count and up to three names that share its beginning or
  // end.
  absl::Status MissingTensor(absl::string_view name) const;

  const std::string description_;
  TensorEntries tensors_;  // for constructors to fill
};

// Uncompressed tensors in one file of any format. Immutable and thread-safe.
class TensorFile : public WeightsSource {
 public:
  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;
  // Reads bytes [begin, end) of a tensor of any type as they are stored, and none beyond its end.
  absl::StatusOr<std::vector<uint8_t>> RawBytes(
      absl::string_view name, int64_t begin = 0,
      int64_t end = std::numeric_limits<int64_t>::max()) const;

 protected:
  // The entries' ranges count from `data_begin` in `file`.
  TensorFile(RandomAccessFile file, int64_t data_begin, TensorEntries tensors)
      : WeightsSource(file.path(), std::move(tensors)),
        file_(std::move(file)),
        data_begin_(data_begin) {}

 private:
  const RandomAccessFile file_;
  const int64_t data_begin_;
};

// A safetensors file; Open checks its whole header. Immutable and thread-safe.
class SafetensorsFile final : public TensorFile {
 public:
  // NotFound or PermissionDenied from the file system; InvalidArgument as ParseSafetensorsHeader
  // says.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  // The file's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile(RandomAccessFile file, SafetensorsHeader header)
      : TensorFile(std::move(file), header.data_begin, std::move(header.tensors)),
        metadata_(std::move(header.metadata)) {}

  const std::map<std::string, std::string> metadata_;
};

}  // namespace zeroth
