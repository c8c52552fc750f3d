// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_DATA_FILES_H_
#define ZEROTH_DATA_DATA_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zeroth {

enum class DataFileKind { kText, kJsonLines, kNpy, kLlmcBin };

// Whether a tokenizer makes the tokens of such a file.
inline bool IsText(DataFileKind kind) {
  return kind == DataFileKind::kText || kind == DataFileKind::kJsonLines;
}

struct DataFile {
  std::string path;
  DataFileKind kind = DataFileKind::kText;
};

// "a.txt", or "a.txt and 2 more"; for a list that is not empty.
std::string DescribeFiles(const std::vector<DataFile>& files);

// Expands a --data value as open_data.h says and tells each file's kind from its first bytes; text
// whose name ends in .jsonl or .ndjson is JSON lines. The
// list is not empty, and all of it is text or all of it token files. A name that ends in .npy or
// .bin without the content to match is an error everywhere: skipping a damaged shard would train on
// less than was asked for.
absl::StatusOr<std::vector<DataFile>> FindDataFiles(const std::string& spec);

struct WeightedSpec {
  std::string spec;
  double weight = 1;
};

// A --data value in parts that are drawn from by weight, "a.jsonl:0.7,b.bin:0.3"; without weights,
// and if it is the name of something that exists, it is one part. InvalidArgument if some parts
// have a weight and others have none, or one is not above 0.
absl::StatusOr<std::vector<WeightedSpec>> SplitWeights(const std::string& spec);

}  // namespace zeroth

#endif  // ZEROTH_DATA_DATA_FILES_H_
