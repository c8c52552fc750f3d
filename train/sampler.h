// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_SAMPLER_H_
#define ZEROTH_TRAIN_SAMPLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/generate.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// The prompt and what follows it by the model as it is; collective, and the same text on every
// rank. Ids that the tokenizer does not have are never picked.
absl::StatusOr<std::string> Sample(Trainer& trainer, const Tokenizer& tokenizer,
                                   absl::string_view prompt, GenerateOptions options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_SAMPLER_H_
