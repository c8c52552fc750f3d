// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

// Returns how the tensor `name` of `source` is copied to a tensor that is called `renamed` on the
// other side; empty if that has no such tensor. `to_gguf` is the direction. Empty `dtype`: the
// tensor's. An error of `renamed` names the source; InvalidArgument for an expert that the model
// does not have, and for a type that cannot be copied.
absl::StatusOr<std::optional<TensorCopy>> GgufCopyOf(
    const WeightsSource& source, const std::string& name,
    const absl::StatusOr<std::optional<GgufTensorName>>& renamed, const GgufDivision& division,
    bool to_gguf, std::optional<DType> dtype);

// Puts copies to a GGUF file into the usual order: embeddings, blocks by number, the rest.
void SortAsInGguf(std::vector<TensorCopy>* copies);

}  // namespace zeroth
