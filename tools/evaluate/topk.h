// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes what a teacher finds likeliest after each token of training data (data/teacher_topk.h).

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"

namespace zeroth {

// Returns the logits, [seq, vocab], of a batch of one row.
using LogitsFunction = absl::FunctionRef<absl::StatusOr<std::vector<float>>(const Batch& batch)>;

struct TopKOptions {
  std::string directory;
  std::string teacher;  // its name in the directory
  int64_t k = 64;
  int64_t vocab_size = 0;  // the teacher's tokens, without padding of its embedding
  LoaderOptions loader;    // of one rank; rows and order are set here
};

// Writes the directory, for every window of the data without shuffling. Returns the number of
// windows. InvalidArgument if k is not between 1 and the vocabulary's size or kMostTeacherTokens;
// AlreadyExists if the directory exists.
absl::StatusOr<int64_t> WriteTopK(const Mixture& data, const TopKOptions& options,
                                  LogitsFunction logits);

// Finds the k largest logits; of equal logits, the one with the lower index wins. Writes their
// indices, ascending, and log-probabilities. `ids` and `log_probs` have k elements.
void FindTopK(absl::Span<const float> logits, absl::Span<int32_t> ids, absl::Span<float> log_probs);

}  // namespace zeroth
