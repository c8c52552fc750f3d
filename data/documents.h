// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_DOCUMENTS_H_
#define ZEROTH_DATA_DOCUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// A document, or a part of one that was cut where its tokenizer permits.
struct TextPart {
  std::string text;
  bool begins = true;  // it is the document's first part
  bool ends = true;    // it is the last
};

// A line of a file of JSON lines, and what messages call it.
struct JsonRecord {
  nlohmann::json json;
  std::string where;
};

// Reads a file's documents one after the other, holding little of it: a text file is one document,
// a file of JSON lines has one in each line, {"text": "..."}, whose other keys are passed over.
// Not thread-safe.
class DocumentReader {
 public:
  // Text that is held at a time, if it may be cut.
  static constexpr size_t kPartBytes = size_t{16} << 20;

  // `cuts_at_spaces` is the tokenizer's. Errors of RandomAccessFile.
  static absl::StatusOr<DocumentReader> Open(const DataFile& file, bool cuts_at_spaces,
                                             size_t part_bytes = kPartBytes);

  // The next part, or false at the end. InvalidArgument names the line that is no JSON object with
  // a text; errors of the file.
  absl::StatusOr<bool> Next(TextPart* part);
  // The next line that is not empty, in place of Next, of a file of JSON lines. InvalidArgument
  // names a line that is no JSON.
  absl::StatusOr<bool> NextRecord(JsonRecord* record);

  // Bytes of the file that parts have been made of, and all.
  size_t position() const { return position_; }
  size_t size() const { return file_.size(); }
  // Goes on where a reader of the same file was that had these values.
  void Seek(size_t position, int64_t lines, bool inside);
  int64_t lines() const { return lines_; }
  // Whether the next part goes on with a document.
  bool inside() const { return inside_ && !done_; }

 private:
  absl::StatusOr<bool> NextText(TextPart* part);
  absl::StatusOr<bool> NextLine(TextPart* part);
  // Reads more into held_; nothing at the file's end.
  absl::Status ReadMore();

  RandomAccessFile file_;
  bool is_lines_ = false;
  bool cuts_at_spaces_ = false;
  size_t part_bytes_ = kPartBytes;
  std::string held_;       // read, and in no part yet
  size_t held_begin_ = 0;  // of it, what is in parts
  size_t read_ = 0;        // bytes of the file that were read
  size_t position_ = 0;
  int64_t lines_ = 0;
  bool inside_ = false;  // of a document, behind its first part
  bool done_ = false;
};

// Feeds a part's ids to `sink`: at a document's begin the tokenizer's prefix, at its end the suffix
// and the end-of-text id, unless the suffix ends with that.
absl::Status EncodePart(const Tokenizer& tokenizer, const TextPart& part, Tokenizer::Sink sink);

}  // namespace zeroth

#endif  // ZEROTH_DATA_DOCUMENTS_H_
