// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/random_access_file.h"

namespace zeroth {

enum class Compression { kNone, kGzip, kZstd };

// How a file is compressed, by its first bytes. A zstd file may begin with a skippable frame, as
// pzstd writes it.
Compression CompressionOf(absl::string_view head);

// "gzip" or "zstd"; empty for kNone.
absl::string_view NameOf(Compression compression);

// Reads a file from its beginning to its end. Compressed content is decompressed as it is read, all
// gzip members or zstd frames one after the other, and their checksums, if any, are verified. That
// takes 256 KiB plus the decompressor's window: 32 KiB for gzip, at most 128 MiB for zstd. Movable.
// Not thread-safe.
class SequentialFile {
 public:
  // Errors of RandomAccessFile. Unimplemented for a compressed file if the build has no Arrow,
  // whose codecs decompress (third_party/arrow).
  static absl::StatusOr<SequentialFile> Open(const std::string& path, Compression compression);
  SequentialFile();
  SequentialFile(SequentialFile&&);
  SequentialFile& operator=(SequentialFile&&);
  ~SequentialFile();

  const std::string& path() const { return file_.path(); }
  // Bytes of the file as stored, before decompression.
  size_t size() const { return file_.size(); }
  // Number of these bytes that have been read.
  size_t file_position() const { return file_position_; }
  // True once everything has been read; for a compressed file perhaps only after a Read that
  // returned 0.
  bool at_end() const;

  // Reads the next bytes of the content; returns their number, which is less than that of `out`
  // only at the end. Errors of RandomAccessFile. InvalidArgument names a compressed file that is
  // damaged or cut short, and the number of bytes before the damage.
  absl::StatusOr<size_t> Read(absl::Span<uint8_t> out);
  // Goes to byte `position` of the content, or to its end. Compressed content is decompressed up to
  // there.
  absl::Status Seek(size_t position);

 private:
  struct Decoder;
  struct ArrowDecoder;

  static absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const std::string& path,
                                                              Compression compression);
  // Reads the next bytes of the file as they are.
  absl::StatusOr<size_t> ReadStored(absl::Span<uint8_t> out);

  RandomAccessFile file_;
  size_t file_position_ = 0;
  std::unique_ptr<Decoder> decoder_;  // of a compressed file
};

}  // namespace zeroth
