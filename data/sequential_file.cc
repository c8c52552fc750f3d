// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/sequential_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

#ifdef ZEROTH_HAS_ARROW
#include "arrow/result.h"
#include "arrow/util/compression.h"
#endif

namespace zeroth {

Compression CompressionOf(absl::string_view head) {
  // Deflate is the only method that gzip has.
  if (absl::StartsWith(head, "\x1f\x8b\x08")) return Compression::kGzip;
  if (absl::StartsWith(head, "\x28\xb5\x2f\xfd")) return Compression::kZstd;
  const bool is_skippable = head.size() >= 4 && (static_cast<uint8_t>(head[0]) & 0xf0) == 0x50 &&
                            head.substr(1, 3) == "\x2a\x4d\x18";
  return is_skippable ? Compression::kZstd : Compression::kNone;
}

absl::string_view NameOf(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
  }
  return "";
}

#ifdef ZEROTH_HAS_ARROW
namespace {

// Bytes of a compressed file that are read at a time.
constexpr size_t kInputBytes = size_t{256} << 10;

}  // namespace

struct SequentialFile::Decoder {
  absl::Status Damaged(const std::string& path, absl::string_view what) const {
    return InvalidArgument(path, ": is compressed by ", NameOf(compression), ", but ", what,
                           " behind ", position, " bytes of its content; fetch it again (",
                           compression == Compression::kGzip ? "gzip" : "zstd",
                           " -t tests a file)");
  }
  absl::Status Damaged(const std::string& path, const arrow::Status& status) const {
    const std::string message = status.message();
    return Damaged(
        path, absl::StrCat("cannot be decompressed: ", message.substr(0, message.find('\n')), ","));
  }

  Compression compression = Compression::kNone;
  std::shared_ptr<arrow::util::Decompressor> decompressor;
  std::vector<uint8_t> input;
  size_t begin = 0;         // bytes of the input that were used
  bool is_finished = true;  // the last member or frame was read whole
  size_t position = 0;      // bytes of the content that were read
};

absl::StatusOr<SequentialFile> SequentialFile::Open(const std::string& path,
                                                    Compression compression) {
  SequentialFile file;
  ZEROTH_ASSIGN_OR_RETURN(file.file_, RandomAccessFile::Open(path));
  if (compression == Compression::kNone) return file;
  file.decoder_ = std::make_unique<Decoder>();
  file.decoder_->compression = compression;
  const auto make = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        const auto codec,
        arrow::util::Codec::Create(compression == Compression::kGzip ? arrow::Compression::GZIP
                                                                     : arrow::Compression::ZSTD));
    return codec->MakeDecompressor().Value(&file.decoder_->decompressor);
  };
  if (const arrow::Status status = make(); !status.ok())
    return absl::UnimplementedError(
        absl::StrCat(path, ": Arrow cannot decompress ", NameOf(compression), ": ",
                     status.message(), "; unpack the file, or set ARROW_HOME to another Arrow"));
  return file;
}

bool SequentialFile::at_end() const {
  return file_position_ == file_.size() &&
         (!decoder_ || (decoder_->is_finished && decoder_->begin == decoder_->input.size()));
}

absl::StatusOr<size_t> SequentialFile::Read(absl::Span<uint8_t> out) {
  if (!decoder_) {
    const size_t count = std::min(out.size(), file_.size() - file_position_);
    ZEROTH_RETURN_IF_ERROR(file_.Read(file_position_, out.first(count)));
    file_position_ += count;
    return count;
  }
  Decoder& decoder = *decoder_;
  size_t done = 0;
  while (done < out.size() && !at_end()) {
    if (decoder.begin == decoder.input.size()) {
      decoder.input.resize(std::min(kInputBytes, file_.size() - file_position_));
      ZEROTH_RETURN_IF_ERROR(file_.Read(file_position_, absl::MakeSpan(decoder.input)));
      file_position_ += decoder.input.size();
      decoder.begin = 0;
    }
    if (decoder.is_finished) {
      if (const arrow::Status reset = decoder.decompressor->Reset(); !reset.ok())
        return decoder.Damaged(path(), reset);
    }
    const auto result = decoder.decompressor->Decompress(
        static_cast<int64_t>(decoder.input.size() - decoder.begin),
        decoder.input.data() + decoder.begin, static_cast<int64_t>(out.size() - done),
        out.data() + done);
    if (!result.ok()) return decoder.Damaged(path(), result.status());
    decoder.begin += static_cast<size_t>(result->bytes_read);
    done += static_cast<size_t>(result->bytes_written);
    decoder.position += static_cast<size_t>(result->bytes_written);
    decoder.is_finished = decoder.decompressor->IsFinished();
    // What the decompressor still holds needs no more input.
    if (!decoder.is_finished && result->bytes_read == 0 && result->bytes_written == 0)
      return decoder.Damaged(path(), "is cut short");
  }
  return done;
}

absl::Status SequentialFile::Seek(size_t position) {
  if (!decoder_) {
    file_position_ = std::min(position, file_.size());
    return absl::OkStatus();
  }
  ZEROTH_ASSIGN_OR_RETURN(*this, Open(path(), decoder_->compression));
  std::vector<uint8_t> passed(std::min(position, kInputBytes));
  for (size_t left = position; left > 0 && !at_end();) {
    const auto out = absl::MakeSpan(passed).first(std::min(left, passed.size()));
    ZEROTH_ASSIGN_OR_RETURN(const size_t count, Read(out));
    left -= count;
  }
  return absl::OkStatus();
}

#else

struct SequentialFile::Decoder {};

absl::StatusOr<SequentialFile> SequentialFile::Open(const std::string& path,
                                                    Compression compression) {
  SequentialFile file;
  ZEROTH_ASSIGN_OR_RETURN(file.file_, RandomAccessFile::Open(path));
  if (compression == Compression::kNone) return file;
  return absl::UnimplementedError(absl::StrCat(
      path, ": is compressed by ", NameOf(compression),
      ", and this program was built without Arrow, which decompresses it; build it by ./bazelw on "
      "a machine that can fetch Arrow, or with ARROW_HOME, or unpack the file"));
}
bool SequentialFile::at_end() const { return file_position_ == file_.size(); }
absl::StatusOr<size_t> SequentialFile::Read(absl::Span<uint8_t> out) {
  const size_t count = std::min(out.size(), file_.size() - file_position_);
  ZEROTH_RETURN_IF_ERROR(file_.Read(file_position_, out.first(count)));
  file_position_ += count;
  return count;
}
absl::Status SequentialFile::Seek(size_t position) {
  file_position_ = std::min(position, file_.size());
  return absl::OkStatus();
}

#endif

SequentialFile::SequentialFile() = default;
SequentialFile::SequentialFile(SequentialFile&&) = default;
SequentialFile& SequentialFile::operator=(SequentialFile&&) = default;
SequentialFile::~SequentialFile() = default;

}  // namespace zeroth
