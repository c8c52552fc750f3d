// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/data/data_files.h"
#include "zeroth/data/parquet_reader.h"
#include "zeroth/data/records.h"
#include "zeroth/data/sequential_file.h"
#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// A document, or a part of one. Documents are cut only where the tokenizer permits.
struct TextPart {
  std::string text;
  bool begins = true;  // this is the document's first part
  bool ends = true;    // this is its last part
};

// Reads a file's documents one after the other, holding little of the file in memory. A text file
// is one document. Each line of a JSON-lines file, element of a JSON array, or row of a parquet
// file (a key for each column) is one document, {"text": "..."}; other keys describe it, and do not
// change what is learned. Compressed files are decompressed as they are read. Not thread-safe.
class DocumentReader {
 public:
  // Bytes of text that are held at a time, if the text may be cut.
  static constexpr size_t kPartBytes = size_t{16} << 20;

  // `cuts_at_spaces` is the tokenizer's CutsAtSpaces(). Errors of SequentialFile.
  static absl::StatusOr<DocumentReader> Open(const DataFile& file, bool cuts_at_spaces,
                                             size_t part_bytes = kPartBytes);
  // Opens a file of records and renames its columns by `columns` (null: keeps the names), which
  // must outlive the reader.
  static absl::StatusOr<DocumentReader> OpenRecords(const DataFile& file, ColumnNames* columns);

  // Reads the next part; false at the end. InvalidArgument names a record that is not a JSON object
  // with a text. Errors of the file.
  absl::StatusOr<bool> Next(TextPart* part);
  // For a file of records: reads the next one instead of Next. InvalidArgument names a line or an
  // element that is not JSON.
  absl::StatusOr<bool> NextRecord(JsonRecord* record);

  // Bytes of the content that have been returned in parts, for Seek.
  size_t position() const { return position_; }
  // Bytes of the file that have been read, for progress; an estimate for compressed files and
  // parquet.
  size_t file_position() const;
  // Continues where another reader of the same file had these values.
  absl::Status Seek(size_t position, int64_t lines, bool inside);
  // Lines, array elements or rows that have been read.
  int64_t lines() const { return lines_; }
  // True if the next part continues a document.
  bool inside() const { return inside_ && !done_; }

 private:
  absl::StatusOr<bool> NextText(TextPart* part);
  absl::StatusOr<bool> NextLine(JsonRecord* record);
  absl::StatusOr<bool> NextElement(JsonRecord* record);
  absl::StatusOr<bool> NextRow(JsonRecord* record);
  // Skips whitespace. Returns the byte after it, or 0 at the file's end.
  absl::StatusOr<char> SkipBlanks();
  void Pass(size_t bytes);
  // Reads more into held_; nothing at the file's end.
  absl::Status ReadMore();

  SequentialFile file_;
  std::optional<ParquetReader> parquet_;
  DataFileKind kind_ = DataFileKind::kText;
  bool is_compressed_ = false;
  ColumnNames* columns_ = nullptr;
  bool cuts_at_spaces_ = false;
  size_t part_bytes_ = kPartBytes;
  std::string held_;       // text that was read
  size_t held_begin_ = 0;  // bytes of held_ that were returned
  size_t position_ = 0;
  int64_t lines_ = 0;
  bool inside_ = false;  // after a document's first part
  bool done_ = false;
};

// Returns the kind of the file's first record. All its records must have this kind. kText for a
// file of text, nullopt for a file of records that has none. `prefers_pairs` is that of
// KindOfRecord. InvalidArgument if the record is of no known kind.
absl::StatusOr<std::optional<RecordKind>> KindOfFirstRecord(const DataFile& file,
                                                            ColumnNames columns = {},
                                                            bool prefers_pairs = false);

// Feeds a part's ids to `sink`. A document begins with the tokenizer's prefix, and ends with the
// suffix and the end-of-text id, unless the suffix ends with that id.
absl::Status EncodePart(const Tokenizer& tokenizer, const TextPart& part, Tokenizer::Sink sink);

// Returns the bytes of the files, none of which is compressed, as tokens of ByteTokenizer, each
// file followed by an end-of-text token. Files of at least 64 KiB stay open and are read on demand,
// with RandomAccessFile's errors. Smaller files are copied, because a million small files would
// exhaust the process's descriptors.
absl::StatusOr<std::shared_ptr<const TokenSource>> OpenByteText(const std::vector<DataFile>& files);

// Encodes the documents of text files and of files of records with the tokenizer's prefix and
// suffix, each followed by an end-of-text token. Held in memory as 16-bit ids if the vocabulary
// permits, otherwise as 32-bit ids. InvalidArgument if no record has one of `columns`.
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeText(const std::vector<DataFile>& files,
                                                              const Tokenizer& tokenizer,
                                                              ColumnNames columns = {});

}  // namespace zeroth
