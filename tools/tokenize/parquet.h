// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_TOKENIZE_PARQUET_H_
#define ZEROTH_TOOLS_TOKENIZE_PARQUET_H_

#include <string>

#include "absl/status/statusor.h"

namespace zeroth {

// `in`, a list of paths separated by commas, with files of JSON lines in the place of its .parquet
// files: their column "text", written as OUT.parquet-0.jsonl and so on, unless an earlier call has.
// Python does that, by the package pyarrow, since Debian has no Arrow for C++: $ZEROTH_PYTHON, or
// python3. FailedPrecondition says what is missing; InvalidArgument that a file has no such column.
absl::StatusOr<std::string> WithoutParquet(const std::string& in, const std::string& out);

// Removes these files.
void RemoveParquetTexts(const std::string& out);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_TOKENIZE_PARQUET_H_
