// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {

// The rows of new tokens in the embedding and the head of a model whose files have fewer rows. Each
// is the mean of the files' rows, like those of resize_token_embeddings in transformers
// (mean_resizing), which adds a little noise. Immutable and thread-safe.
class NewTokenRows {
 public:
  NewTokenRows() = default;
  // Reads the files' rows once. `weights` and `model` are not kept. InvalidArgument if the
  // embedding or the head of `model` is frozen: rows of new tokens would not be learned.
  static absl::StatusOr<NewTokenRows> Create(const WeightsSource& weights,
                                             const LanguageModel& model);

  // True if the model's parameter of this name has more rows than the files.
  bool Contains(absl::string_view parameter) const;
  // Sets out[i] to element begin + i of a parameter for which Contains is true. Errors of
  // WeightsSource::ReadElements.
  absl::Status Read(const WeightsSource& weights, const Parameter& parameter, int64_t begin,
                    absl::Span<float> out) const;

 private:
  struct Rows {
    int64_t stored = 0;  // elements in the files
    std::vector<float> mean;
  };
  std::map<std::string, Rows, std::less<>> rows_;
};

}  // namespace zeroth
