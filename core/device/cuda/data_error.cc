// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/data_error.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"

namespace zeroth::cuda {

absl::Status ToStatus(const DataErrorWord& word) {
  // A kernel may be writing the word.
  const unsigned code = __atomic_load_n(&word.code, __ATOMIC_ACQUIRE);
  switch (static_cast<DataErrorCode>(code)) {
    case DataErrorCode::kNone:
      return absl::OkStatus();
    case DataErrorCode::kToken:
    case DataErrorCode::kBackwardToken:
      return absl::InvalidArgumentError(absl::StrCat(
          code == static_cast<unsigned>(DataErrorCode::kToken) ? "Embedding" : "EmbeddingBackward",
          ": tokens[", word.position / word.width, ", ", word.position % word.width, "] is ",
          word.value, ", expected a value in [0, ", word.limit,
          "), the rows of the embedding table"));
    case DataErrorCode::kTarget:
      return absl::InvalidArgumentError(
          absl::StrCat("LinearCrossEntropy: targets[", word.position, "] is ", word.value,
                       "; expected a token in [0, ", word.limit, ") or -100 to leave the row out"));
  }
  ZEROTH_CHECK(false);
  return absl::InternalError("not reached");
}

}  // namespace zeroth::cuda
