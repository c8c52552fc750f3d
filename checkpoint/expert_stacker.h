// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// Turns the tensors of separate experts into those of gpt-oss's files, the inverse of
// SeparateExperts. Thread-safe.
class ExpertStacker {
 public:
  // Replaces the separate experts in `tensors` by stacks. A stack takes the position of its first
  // tensor. InvalidArgument names the tensor if experts are not numbered from 0 on, or if one
  // differs from the first in its tensors, shapes or dtypes.
  static absl::StatusOr<std::unique_ptr<ExpertStacker>> Create(
      std::vector<TensorDeclaration>* tensors);

  // Whether `name` is a tensor of an expert.
  bool Takes(absl::string_view name) const { return parts_.find(name) != parts_.end(); }

  // Writes elements [begin, begin + values.size()) of a tensor for which Takes() is true. Once an
  // expert's part of a stack is complete, passes it to `sink` and frees it. OutOfRange for elements
  // outside the tensor, AlreadyExists for an element that was written before; also the errors of
  // `sink`.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values,
                     TensorSink sink);

 private:
  // One expert's part of a stack.
  struct Slice {
    std::string stack;
    int64_t begin = 0;  // in the stack
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t missing = 0;  // elements
    std::vector<float> values = {};
  };
  struct Part {
    ExpertPart part;
    Slice* slice = nullptr;
    RangeSet taken;
  };

  ExpertStacker() = default;

  std::mutex mutex_;
  std::map<std::string, Slice, std::less<>> slices_;  // by stack and expert; guarded by mutex_
  std::map<std::string, Part, std::less<>> parts_;    // by tensor; `taken` guarded by mutex_
};

}  // namespace zeroth
