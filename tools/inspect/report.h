// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_INSPECT_REPORT_H_
#define ZEROTH_TOOLS_INSPECT_REPORT_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/tools/inspect/inspected.h"

namespace zeroth {

// Returns a line for each tensor: name, dtype, shape, location, and if `norms`, its Euclidean norm
// and largest magnitude, for which all elements are read. Types that do not convert to float32 have
// neither.
absl::StatusOr<std::string> TableOf(Inspected& file, bool norms);

// Reads every byte of `file` and describes the damage. Sets `damaged` to whether there is any.
std::string VerifyReport(Inspected& file, bool& damaged);

// Describes how two files differ: tensors that only one has, and tensors of another type or shape.
// For tensors with other bits (with other values, if the types differ) it says how many elements
// differ and by how much. Sets `differ` to whether there is any difference.
absl::StatusOr<std::string> DiffReport(Inspected& a, Inspected& b, bool& differ);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_INSPECT_REPORT_H_
