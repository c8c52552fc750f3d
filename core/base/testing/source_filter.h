// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// A test case that is linked into a binary.
struct LinkedTestCase {
  std::string suite;
  std::string name;
  std::string source;  // as the compiler was given it
};

// Returns GoogleTest's filter for those cases that `filter` selects and whose source is one of
// `sources`, which are paths below the root of the project.
//
// INVALID_ARGUMENT if no case is of one of the sources, or if the source of a case is not that of a
// test, so that no target would run it. FAILED_PRECONDITION if a case of another source has the
// same full name as one of these, since a filter cannot tell them apart.
absl::StatusOr<std::string> FilterBySource(absl::string_view filter,
                                           absl::Span<const LinkedTestCase> cases,
                                           const std::vector<std::string>& sources);

}  // namespace zeroth
