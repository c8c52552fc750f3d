// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/data/loader.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {

// Returns which kernel computes the attention of `model` at the shape of the run's sequences, or
// nothing if there is no choice. Fails if the requested kernel does not support that shape.
absl::StatusOr<std::string> DescribeAttention(const RunSpec& spec, const RunInput& input,
                                              Kernels& kernels, const LanguageModel& model);

// The losses of a cached --reference; null for data that the run does not have.
struct CachedReference {
  std::shared_ptr<const ReferenceLosses> losses;       // of the training pairs
  std::shared_ptr<const ReferenceLosses> eval_losses;  // of the held-out pairs
  std::vector<std::string> notes;                      // lines to print
  bool interrupted = false;                            // `wants_to_stop` was true on some rank
};

// Loads the reference's losses of the sequences that the run will read. Those that are not in the
// cache are computed, and kept there for later runs; only then is the reference's model in memory,
// in `trainer`, which must be null. After an error or an interrupt it is left there, since a report
// of the error names its communicators. `out` is the run's directory and `order` that of its data,
// for the positions from which it may resume. Calls `wants_to_stop` before each batch. Collective.
absl::StatusOr<CachedReference> OpenCachedReference(const RunSpec& spec, const RunInput& input,
                                                    Rank& rank, const std::string& out,
                                                    const DataOrder& order,
                                                    absl::FunctionRef<bool()> wants_to_stop,
                                                    std::unique_ptr<Trainer>& trainer);

}  // namespace zeroth
