// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/divided_model.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth {

absl::Status DivideForTraining(LanguageModel& model, Rank& rank, const TrainerOptions& options) {
  const TensorParallelOptions& tensor = options.tensor;
  if (tensor.size == 1 && !tensor.enabled()) return absl::OkStatus();
  if (tensor.size < 1 || rank.world_size() % tensor.size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(tensor.size, " tensor ranks do not divide the ",
                                                   rank.world_size(), " of the world"));
  }
  if (options.record_steps) {
    return absl::UnimplementedError(
        "recorded steps with parameters that are divided among tensor ranks");
  }
  ZEROTH_RETURN_IF_ERROR(kernels::SupportsDividedVocabulary(rank.kernels()));
  return DivideModel(model, tensor, rank.index() % tensor.size);
}

}  // namespace zeroth
