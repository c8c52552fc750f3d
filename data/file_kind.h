// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "zeroth/data/sequential_file.h"

namespace zeroth {

enum class DataFileKind { kText, kJsonLines, kJsonArray, kNpy, kLlmcBin, kMegatron, kParquet };

// True if a file of this kind holds records: of JSON, or rows of parquet.
inline bool IsRecords(DataFileKind kind) {
  return kind == DataFileKind::kJsonLines || kind == DataFileKind::kJsonArray ||
         kind == DataFileKind::kParquet;
}

// True if a file of this kind needs a tokenizer.
inline bool IsText(DataFileKind kind) { return kind == DataFileKind::kText || IsRecords(kind); }

// Bytes of a file that FileKindOf needs: enough to find a NUL in any binary format and to tell JSON
// from text, and few enough for a large directory.
inline constexpr size_t kFileHeadBytes = 8192;

struct FileKind {
  std::optional<DataFileKind> kind;  // none: the file is not read
  Compression compression = Compression::kNone;
  // If there is no kind, the error message: what the file is, with its first bytes, what is
  // expected, and what to do.
  std::string refusal;
  // If there is no kind: true if the file holds records or tokens in an unsupported format. Then it
  // is an error in a directory too, since skipping it would silently train on less data.
  bool holds_data = false;
};

// Decides what a file is by the first kFileHeadBytes bytes of its content, or by all of a shorter
// one. The name decides only what the content cannot: .jsonl and .ndjson make text lines of JSON,
// and .json does where it begins with a brace or bracket; .csv and .tsv make it a table; a file
// named .npy or .bin with other content is damaged. A .bin file of Megatron-LM has no header: the
// caller asks for its .idx file, which is kMegatron.
FileKind FileKindOf(const std::string& path, absl::string_view head);

// Like FileKindOf, for a compressed file: `head` holds the first bytes of the decompressed content.
// Only text and records of JSON may be compressed.
FileKind CompressedFileKindOf(const std::string& path, Compression compression,
                              absl::string_view head);

// Refuses a compressed file whose first bytes cannot be decompressed, for this reason.
FileKind UnreadableFileKind(const std::string& path, absl::string_view reason);

}  // namespace zeroth
