// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace zeroth {

// Converts the parquet files of `in`, a comma-separated list of paths, to JSON lines, and returns
// the list with their paths instead. The column "text" is written to OUT.parquet-0.jsonl and so on,
// unless an earlier call has done so. Python's package pyarrow does the conversion, since Debian
// has no Arrow for C++; the Python is $ZEROTH_PYTHON or python3. FailedPrecondition says what is
// missing; InvalidArgument if a file has no such column.
absl::StatusOr<std::string> WithoutParquet(const std::string& in, const std::string& out);

// Removes the files of JSON lines that WithoutParquet has written for `out`.
void RemoveParquetTexts(const std::string& out);

}  // namespace zeroth
