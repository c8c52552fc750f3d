// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/documents.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/tools/tokenize/tokenize.h"

namespace zeroth {

// OK if DocumentOutput::Create may write to options.out: neither that nor a shard of that name is
// there, or options.overwrite is set and these are of the kind that it writes. Otherwise
// AlreadyExists.
absl::Status CheckDocumentOutput(const TokenizeOptions& options);

// Writes encoded documents as token shards or JSON lines.
class DocumentOutput {
 public:
  // Encoded documents, before they are written.
  struct Piece {
    std::vector<int32_t> ids;
    std::string lines;
    int64_t tokens = 0;
  };

  // The ending of options.out selects the format: .jsonl, .bin or .npy. InvalidArgument for others.
  // `tokenizer` outlives the result.
  static absl::StatusOr<std::unique_ptr<DocumentOutput>> Create(const Tokenizer& tokenizer,
                                                                const TokenizeOptions& options);
  virtual ~DocumentOutput() = default;

  // True if a document must not be divided into parts.
  virtual bool needs_whole_documents() const = 0;
  // Thread-safe.
  virtual absl::Status Encode(const std::vector<TextPart>& parts, Piece* piece) const = 0;

  // Continues from the position that Flush returned in an earlier process.
  virtual absl::Status Resume(const nlohmann::json& position) = 0;
  virtual absl::Status Append(const Piece& piece) = 0;
  // Flushes everything appended to stable storage, and returns the position.
  virtual absl::StatusOr<nlohmann::json> Flush() = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace zeroth
