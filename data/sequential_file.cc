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
namespace {

// Bytes of a compressed file, or of its content, that are read at a time.
constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

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

// Decompresses what it reads from a file.
struct SequentialFile::Decoder {
  explicit Decoder(Compression how) : compression(how) {}
  virtual ~Decoder() = default;
  // True if nothing is left of what was read from the file.
  virtual bool is_empty() const = 0;
  // SequentialFile::Read.
  virtual absl::StatusOr<size_t> Read(SequentialFile& file, absl::Span<uint8_t> out) = 0;

  const Compression compression;
};

#ifdef ZEROTH_HAS_ARROW

struct SequentialFile::ArrowDecoder : Decoder {
  using Decoder::Decoder;

  bool is_empty() const override { return is_finished && begin == input.size(); }

  absl::StatusOr<size_t> Read(SequentialFile& file, absl::Span<uint8_t> out) override {
    size_t done = 0;
    while (done < out.size() && !file.at_end()) {
      if (begin == input.size()) {
        input.resize(kPieceBytes);
        ZEROTH_ASSIGN_OR_RETURN(const size_t count, file.ReadStored(absl::MakeSpan(input)));
        input.resize(count);
        begin = 0;
      }
      if (is_finished) {
        if (const arrow::Status reset = decompressor->Reset(); !reset.ok())
          return Damaged(file, reset);
      }
      const auto result =
          decompressor->Decompress(static_cast<int64_t>(input.size() - begin), input.data() + begin,
                                   static_cast<int64_t>(out.size() - done), out.data() + done);
      if (!result.ok()) return Damaged(file, result.status());
      begin += static_cast<size_t>(result->bytes_read);
      done += static_cast<size_t>(result->bytes_written);
      position += static_cast<size_t>(result->bytes_written);
      is_finished = decompressor->IsFinished();
      // What the decompressor still holds needs no more input.
      if (!is_finished && result->bytes_read == 0 && result->bytes_written == 0)
        return Damaged(file, "is cut short");
    }
    return done;
  }

  absl::Status Damaged(const SequentialFile& file, absl::string_view what) const {
    return InvalidArgument(file.path(), ": is compressed by ", NameOf(compression), ", but ", what,
                           " behind ", position, " bytes of its content; fetch it again (",
                           compression == Compression::kGzip ? "gzip" : "zstd",
                           " -t tests a file)");
  }
  absl::Status Damaged(const SequentialFile& file, const arrow::Status& status) const {
    const std::string message = status.message();
    return Damaged(
        file, absl::StrCat("cannot be decompressed: ", message.substr(0, message.find('\n')), ","));
  }

  std::shared_ptr<arrow::util::Decompressor> decompressor;
  std::vector<uint8_t> input;
  size_t begin = 0;         // bytes of the input that were used
  bool is_finished = true;  // the last member or frame was read whole
  size_t position = 0;      // bytes of the content that were read
};

absl::StatusOr<std::unique_ptr<SequentialFile::Decoder>> SequentialFile::MakeDecoder(
    const std::string& path, Compression compression) {
  auto decoder = std::make_unique<ArrowDecoder>(compression);
  const auto make = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        const auto codec,
        arrow::util::Codec::Create(compression == Compression::kGzip ? arrow::Compression::GZIP
                                                                     : arrow::Compression::ZSTD));
    return codec->MakeDecompressor().Value(&decoder->decompressor);
  };
  if (const arrow::Status status = make(); !status.ok())
    return absl::UnimplementedError(
        absl::StrCat(path, ": Arrow cannot decompress ", NameOf(compression), ": ",
                     status.message(), "; unpack the file, or set ARROW_HOME to another Arrow"));
  return decoder;
}

#else

absl::StatusOr<std::unique_ptr<SequentialFile::Decoder>> SequentialFile::MakeDecoder(
    const std::string& path, Compression compression) {
  return absl::UnimplementedError(absl::StrCat(
      path, ": is compressed by ", NameOf(compression),
      ", and this program was built without Arrow, which decompresses it; build it by ./bazelw on "
      "a machine that can fetch Arrow, or with ARROW_HOME, or unpack the file"));
}

#endif

absl::StatusOr<SequentialFile> SequentialFile::Open(const std::string& path,
                                                    Compression compression) {
  SequentialFile file;
  ZEROTH_ASSIGN_OR_RETURN(file.file_, RandomAccessFile::Open(path));
  if (compression == Compression::kNone) return file;
  ZEROTH_ASSIGN_OR_RETURN(file.decoder_, MakeDecoder(path, compression));
  return file;
}

bool SequentialFile::at_end() const {
  return file_position_ == file_.size() && (!decoder_ || decoder_->is_empty());
}

absl::StatusOr<size_t> SequentialFile::ReadStored(absl::Span<uint8_t> out) {
  const size_t count = std::min(out.size(), file_.size() - file_position_);
  ZEROTH_RETURN_IF_ERROR(file_.Read(file_position_, out.first(count)));
  file_position_ += count;
  return count;
}

absl::StatusOr<size_t> SequentialFile::Read(absl::Span<uint8_t> out) {
  return decoder_ ? decoder_->Read(*this, out) : ReadStored(out);
}

absl::Status SequentialFile::Seek(size_t position) {
  if (!decoder_) {
    file_position_ = std::min(position, file_.size());
    return absl::OkStatus();
  }
  ZEROTH_ASSIGN_OR_RETURN(*this, Open(path(), decoder_->compression));
  std::vector<uint8_t> passed(std::min(position, kPieceBytes));
  for (size_t left = position; left > 0 && !at_end();) {
    const auto out = absl::MakeSpan(passed).first(std::min(left, passed.size()));
    ZEROTH_ASSIGN_OR_RETURN(const size_t count, Read(out));
    left -= count;
  }
  return absl::OkStatus();
}

SequentialFile::SequentialFile() = default;
SequentialFile::SequentialFile(SequentialFile&&) = default;
SequentialFile& SequentialFile::operator=(SequentialFile&&) = default;
SequentialFile::~SequentialFile() = default;

}  // namespace zeroth
