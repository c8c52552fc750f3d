// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_LAYOUT_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

// Where everything lies in a safetensors file, which is the header and then the data.
struct SafetensorsLayout {
  std::string header;  // its length is a multiple of 64
  // By name; ranges count from the end of the header, in the order of names, without gaps.
  std::map<std::string, SafetensorsEntry, std::less<>> entries;
  int64_t data_bytes = 0;
};

// Equal declarations give equal headers. `path` is for messages. InvalidArgument for an empty,
// repeated, reserved or non-UTF-8 name, a size that overflows, or more than a header may hold.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_LAYOUT_H_
