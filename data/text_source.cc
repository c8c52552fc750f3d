// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/text_source.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/byte_tokenizer.h"
#include "zeroth/data/documents.h"

namespace zeroth {
namespace {

// Smaller files are copied to memory and closed.
constexpr size_t kCopyBelow = size_t{64} << 10;
// Bytes of a document that are read at a time.
constexpr size_t kPiece = 4096;

// The bytes of a file, which is kept open or copied to memory.
class ByteDocument {
 public:
  static absl::StatusOr<ByteDocument> Open(const std::string& path) {
    ByteDocument document;
    ZEROTH_ASSIGN_OR_RETURN(document.file_, RandomAccessFile::Open(path));
    if (document.file_.size() < kCopyBelow) {
      ZEROTH_ASSIGN_OR_RETURN(document.copy_, document.file_.ReadHead(kCopyBelow));
      document.file_ = RandomAccessFile();
    }
    return document;
  }

  size_t size() const { return file_.size() > 0 ? file_.size() : copy_.size(); }

  // Reads the bytes from `begin` on as ids.
  absl::Status Read(size_t begin, absl::Span<int32_t> out) const {
    if (file_.size() == 0) {
      std::copy_n(copy_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
      return absl::OkStatus();
    }
    std::array<uint8_t, kPiece> piece;
    while (!out.empty()) {
      const size_t count = std::min(out.size(), piece.size());
      ZEROTH_RETURN_IF_ERROR(file_.Read(begin, absl::MakeSpan(piece.data(), count)));
      std::copy_n(piece.begin(), count, out.begin());
      out.remove_prefix(count);
      begin += count;
    }
    return absl::OkStatus();
  }

 private:
  RandomAccessFile file_;
  std::vector<uint8_t> copy_;
};

class ByteText final : public TokenSource {
 public:
  static std::shared_ptr<const TokenSource> Make(std::vector<ByteDocument> documents,
                                                 std::string description) {
    Facts facts;
    facts.description = std::move(description);
    std::vector<int64_t> begins;
    for (const ByteDocument& document : documents) {
      begins.push_back(facts.size);
      facts.size += static_cast<int64_t>(document.size()) + 1;
    }
    return std::shared_ptr<const TokenSource>(
        new ByteText(std::move(documents), std::move(begins), std::move(facts)));
  }

 private:
  ByteText(std::vector<ByteDocument> documents, std::vector<int64_t> begins, Facts facts)
      : TokenSource(std::move(facts)),
        documents_(std::move(documents)),
        begins_(std::move(begins)) {}

  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    auto index = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                     begins_.begin() - 1);
    auto place = static_cast<size_t>(begin - begins_[index]);
    while (!out.empty()) {
      const size_t count = std::min(out.size(), documents_[index].size() - place);
      ZEROTH_RETURN_IF_ERROR(documents_[index].Read(place, out.subspan(0, count)));
      out.remove_prefix(count);
      if (out.empty()) break;
      out[0] = ByteTokenizer::kEndOfText;
      out.remove_prefix(1);
      ++index;
      place = 0;
    }
    return absl::OkStatus();
  }

  const std::vector<ByteDocument> documents_;
  const std::vector<int64_t> begins_;
};

template <typename T>
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeAs(const std::vector<DataFile>& files,
                                                            const Tokenizer& tokenizer) {
  std::vector<T> ids;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader,
                            DocumentReader::Open(file, tokenizer.CutsAtSpaces()));
    for (TextPart part;;) {
      ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.Next(&part));
      if (!more) break;
      ZEROTH_RETURN_IF_ERROR_WITH(EncodePart(tokenizer, part,
                                             [&ids](absl::Span<const int32_t> piece) {
                                               for (const int32_t id : piece)
                                                 ids.push_back(static_cast<T>(id));
                                             }),
                                  file.path);
    }
  }
  ids.shrink_to_fit();
  TokenSource::Facts facts;
  facts.description = DescribeFiles(files);
  return std::make_shared<const TokensInMemory<T>>(std::move(ids), std::move(facts));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenByteText(
    const std::vector<DataFile>& files) {
  ZEROTH_CHECK(!files.empty());
  std::vector<ByteDocument> documents;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(ByteDocument document, ByteDocument::Open(file.path));
    documents.push_back(std::move(document));
  }
  return ByteText::Make(std::move(documents), DescribeFiles(files));
}

absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeText(const std::vector<DataFile>& files,
                                                              const Tokenizer& tokenizer) {
  ZEROTH_CHECK(!files.empty());
  constexpr int32_t kUint16Ids = std::numeric_limits<uint16_t>::max() + 1;
  if (tokenizer.vocab_size() <= kUint16Ids) return EncodeAs<uint16_t>(files, tokenizer);
  return EncodeAs<int32_t>(files, tokenizer);
}

}  // namespace zeroth
