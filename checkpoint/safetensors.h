// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/random_access_file.h"

namespace zeroth {

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

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_H_
