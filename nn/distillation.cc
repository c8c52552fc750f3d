// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/distillation.h"

#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

absl::Status ExpectTeacher(const Distillation& teacher, const Tensor& hidden,
                           const Parameter& weight) {
  const int64_t batch = hidden.dim(0);
  const int64_t seq = hidden.dim(1);
  if (!teacher.ids.defined()) {
    const Shape& rows = teacher.teacher.hidden.shape();
    const Shape& head = teacher.teacher.weight.shape();
    if (rows.rank() == 3 && rows.dim(0) == batch && rows.dim(1) == seq && head.rank() == 2 &&
        head.dim(0) == weight.shape().dim(0) && head.dim(1) == rows.dim(2)) {
      return absl::OkStatus();
    }
    return InvalidArgument("loss: the teacher's hidden states are ", rows.ToString(),
                           " and its head ", head.ToString(), ", expected [", batch, ", ", seq,
                           ", dim] and [", weight.shape().dim(0), ", dim]");
  }
  if (teacher.ids.shape().rank() == 3 && teacher.ids.shape() == teacher.log_probs.shape() &&
      teacher.ids.dim(0) == batch && teacher.ids.dim(1) == seq) {
    return absl::OkStatus();
  }
  return InvalidArgument("loss: the teacher's tokens are ", teacher.ids.shape().ToString(),
                         " and their log-probabilities ", teacher.log_probs.shape().ToString(),
                         ", expected [", batch, ", ", seq, ", k]");
}

}  // namespace zeroth
