// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <functional>
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
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/random_access_file.h"

namespace zeroth {

// A safetensors file, whose header Open checks as a whole. Immutable and thread-safe.
class SafetensorsFile final : public WeightsSource {
 public:
  // NotFound or PermissionDenied from the file system; InvalidArgument as ParseSafetensorsHeader
  // says.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  std::vector<std::string> names() const override;
  const SafetensorsEntry* Find(absl::string_view name) const override;
  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;
  const std::string& description() const override { return file_.path(); }

  const std::map<std::string, SafetensorsEntry, std::less<>>& tensors() const {
    return header_.tensors;
  }
  // The file's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Bytes [begin, end) of a tensor of any type as they are stored, and none beyond its end.
  absl::StatusOr<std::vector<uint8_t>> RawBytes(
      absl::string_view name, int64_t begin = 0,
      int64_t end = std::numeric_limits<int64_t>::max()) const;

 private:
  SafetensorsFile(RandomAccessFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  RandomAccessFile file_;
  SafetensorsHeader header_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_H_
