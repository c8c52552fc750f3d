// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_BACK_END_H_
#define ZEROTH_TRAIN_BACK_END_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/train/options.h"

namespace zeroth {

// --comm with auto resolved, by what `ranks` says of the program that started this process: local
// if it was started alone. InvalidArgument if it is one of several that would each make a whole run
// of its own in the same --out, or that no back end can bring together.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks);
// The same, for this process.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_BACK_END_H_
