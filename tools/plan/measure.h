// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_PLAN_MEASURE_H_
#define ZEROTH_TOOLS_PLAN_MEASURE_H_

#include <string>

#include "absl/status/status.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Measures the machine at hand, and writes it to `path` as a file for --machine. Without a launcher
// that is all cores of this CPU; with one, the ranks that it has started over the back end that
// `options` name, on CPUs or GPUs. A GPU's memory and what else is not measured are those of
// --machine. InvalidArgument names the flag that is missing or too much; errors of MeasureRanks and
// of writing.
absl::Status MeasureInto(const std::string& path, const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_PLAN_MEASURE_H_
