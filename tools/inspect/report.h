// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_INSPECT_REPORT_H_
#define ZEROTH_TOOLS_INSPECT_REPORT_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/tools/inspect/inspected.h"

namespace zeroth {

// A line for each tensor: name, dtype, shape, where it is, and if `norms`, its Euclidean norm and
// largest magnitude, for which all of it is read. Types without such are left blank.
absl::StatusOr<std::string> TableOf(Inspected& file, bool norms);

// What reading every byte of `file` finds, in words; `damaged` says whether there was anything.
std::string VerifyReport(Inspected& file, bool& damaged);

// How two differ: tensors that only one has, that are of another type or shape, and for those of
// other bits, or of other values where types differ, how many elements and by how much. `differ`
// says whether there was anything.
absl::StatusOr<std::string> DiffReport(Inspected& a, Inspected& b, bool& differ);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_INSPECT_REPORT_H_
