// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a teacher finds likeliest after each token of training data, written once by `evaluate
// --write_topk` and read beside the data. A directory has
//
//   topk.json       TopKFacts
//   source-N.topk   the rows of source N (see Mixture) in order: a checksum (uint64), the ids
//                   (int32 [seq_len, k], ascending at each position) and their log-probabilities
//                   (fp32 [seq_len, k]), little-endian
//
// A row is a window of the loader without shuffling. Its checksum is that of the tokens and
// documents that the teacher read, and of what it found. It is compared whenever the row is read,
// so that other data, data that another tokenizer or template encoded, and damage are refused.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/random_access_file.h"

namespace zeroth {

struct TopKFacts {
  int64_t k = 0;
  int64_t seq_len = 0;
  std::string teacher;        // how the teacher was named
  std::vector<int64_t> rows;  // of each source
  std::string checksum;       // of the checksums of all rows; ranks compare it
};

// A row of the data, and the buffers for the teacher's likeliest tokens at each position. `starts`
// has the row's document starts in the form of Batch::starts, or is empty.
struct TopKRow {
  absl::Span<const int32_t> inputs;  // [seq_len]
  absl::Span<const int32_t> starts;  // [seq_len]
  absl::Span<int32_t> ids;           // [seq_len, k]
  absl::Span<float> log_probs;       // [seq_len, k]
};

// Immutable and thread-safe.
class TeacherTopK {
 public:
  // NotFound if there is no such directory; InvalidArgument for an incomplete one.
  static absl::StatusOr<std::shared_ptr<const TeacherTopK>> Open(const std::string& directory,
                                                                 int64_t vocab_size);

  const TopKFacts& facts() const { return facts_; }
  const std::string& directory() const { return directory_; }
  // Fills ids and log_probs. InvalidArgument if the teacher saw other tokens or documents, if the
  // row has changed, or if an id is outside the vocabulary.
  absl::Status Read(size_t source, int64_t row, const TopKRow& to) const;

 private:
  TeacherTopK(std::string directory, int64_t vocab_size, TopKFacts facts)
      : directory_(std::move(directory)), vocab_size_(vocab_size), facts_(std::move(facts)) {}

  const std::string directory_;
  const int64_t vocab_size_;
  const TopKFacts facts_;
  std::vector<RandomAccessFile> files_;  // of each source
};

// Writes a directory that TeacherTopK reads. It appears under its name once it is complete.
class TopKWriter {
 public:
  // AlreadyExists if there is something at `directory`.
  static absl::StatusOr<TopKWriter> Create(const std::string& directory, TopKFacts facts);

  // Adds the next row of the source: of the first one, then of the second, … Ids are ascending at
  // each position. InvalidArgument for a log-probability that is not finite.
  absl::Status Add(const TopKRow& row);
  // Publishes the directory, after the last row.
  absl::Status Finish();

 private:
  std::string directory_;
  std::string temporary_;
  FileDescriptor lock_;
  TopKFacts facts_;
  size_t source_ = 0;
  int64_t row_ = 0;
  FileDescriptor file_;              // of the source
  std::vector<uint64_t> checksums_;  // of all rows
};

}  // namespace zeroth
