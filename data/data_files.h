// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "zeroth/data/file_kind.h"
#include "zeroth/data/sequential_file.h"

namespace zeroth {

struct DataFile {
  std::string path;  // of a Megatron-LM dataset, the .bin file's
  DataFileKind kind = DataFileKind::kText;
  Compression compression = Compression::kNone;  // only of text and of records of JSON
};

// "a.txt", or "a.txt and 2 more"; for a list that is not empty.
std::string DescribeFiles(const std::vector<DataFile>& files);

// Expands a --data value as open_data.h says. A file's first bytes decide its kind (file_kind.h).
// The list is not empty, and has either text or token files. InvalidArgument for a named file of an
// unsupported kind, and for any file, named or not, that holds data in an unsupported form, or is
// named .npy or .bin without matching content: skipping it would silently train on less data. Sets
// `left_out`, if given, to the other paths in named directories that are not read, including links
// to directories. Files in directories, and matches of patterns, for which `skips` is true are
// passed over.
absl::StatusOr<std::vector<DataFile>> FindDataFiles(
    const std::string& spec, std::vector<std::string>* left_out = nullptr,
    absl::FunctionRef<bool(const std::string& path)> skips = [](const std::string&) {
      return false;
    });

// A line that names the first of `left_out`, which is not empty.
std::string DescribeLeftOut(const std::vector<std::string>& left_out);

struct WeightedSpec {
  std::string spec;
  double weight = 1;
};

// Splits a --data value with weights into its parts: "a.jsonl:0.7,b.bin:0.3". A value without
// weights, or one that exists as a path, is one part. InvalidArgument if only some parts have a
// weight, or if a weight is not above 0.
absl::StatusOr<std::vector<WeightedSpec>> SplitWeights(const std::string& spec);

}  // namespace zeroth
