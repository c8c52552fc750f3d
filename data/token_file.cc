// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

// More than any accepted .npy header, and than llm.c's.
constexpr size_t kMostHeaderBytes = size_t{128} << 10;
// Number of tokens that are read at a time.
constexpr size_t kPiece = 4096;

// The place of the tokens in a file.
struct TokenLayout {
  size_t data_begin = 0;  // in bytes
  int64_t count = 0;
  int64_t row_length = 0;  // see TokenSource::Facts
};

template <typename T>
class TokenFile final : public TokenSource {
 public:
  TokenFile(RandomAccessFile file, const TokenLayout& layout, int32_t vocab_size)
      : TokenSource({layout.count, layout.row_length, false, file.path(), {}}),
        file_(std::move(file)),
        data_begin_(layout.data_begin),
        vocab_size_(vocab_size) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    std::array<T, kPiece> ids;
    while (!out.empty()) {
      const size_t count = std::min(out.size(), ids.size());
      ZEROTH_RETURN_IF_ERROR(
          file_.Read(data_begin_ + static_cast<size_t>(begin) * sizeof(T),
                     absl::MakeSpan(reinterpret_cast<uint8_t*>(ids.data()), count * sizeof(T))));
      for (size_t i = 0; i < count; ++i) {
        // A negative id becomes a huge one here, so one comparison refuses both.
        if (static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(vocab_size_)) {
          return NoSuchToken(begin + static_cast<int64_t>(i), ids[i]);
        }
        out[i] = static_cast<int32_t>(ids[i]);
      }
      out.remove_prefix(count);
      begin += static_cast<int64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status NoSuchToken(int64_t index, T id) const {
    return InvalidArgument(file_.path(), ": token ", index, " is ", id, ", expected 0 to ",
                           vocab_size_ - 1, " for a vocabulary of ", vocab_size_,
                           "; were these tokens made for another model?");
  }

  const RandomAccessFile file_;
  const size_t data_begin_;
  const int32_t vocab_size_;
};

template <typename T>
std::shared_ptr<const TokenSource> Make(RandomAccessFile file, const TokenLayout& layout,
                                        int32_t vocab_size) {
  return std::make_shared<const TokenFile<T>>(std::move(file), layout, vocab_size);
}

using Maker = std::shared_ptr<const TokenSource> (*)(RandomAccessFile, const TokenLayout&, int32_t);

struct ElementType {
  const char* descr;
  size_t bytes;
  Maker make;
};

constexpr ElementType kNpyTypes[] = {
    {"|u1", 1, &Make<uint8_t>},  {"<u2", 2, &Make<uint16_t>}, {"<u4", 4, &Make<uint32_t>},
    {"<u8", 8, &Make<uint64_t>}, {"<i4", 4, &Make<int32_t>},  {"<i8", 8, &Make<int64_t>},
};

absl::StatusOr<ElementType> FindNpyType(const std::string& descr) {
  std::string known;
  for (const ElementType& type : kNpyTypes) {
    if (descr == type.descr) return type;
    absl::StrAppend(&known, known.empty() ? "" : ", ", type.descr);
  }
  return InvalidArgument("elements are '", descr, "', expected one of ", known,
                         "; convert with numpy.ndarray.astype");
}

// Checks the shape, and that exactly its elements follow the header.
absl::StatusOr<TokenLayout> LayOutNpy(const NpyHeader& header, size_t element_bytes,
                                      size_t file_bytes) {
  const std::string shape = absl::StrCat("(", absl::StrJoin(header.shape, ", "), ")");
  if (header.shape.size() != 1 && header.shape.size() != 2) {
    return InvalidArgument("shape ", shape, ", expected one dimension (a stream) or two (rows)");
  }
  if (header.fortran_order && header.shape.size() == 2) {
    return absl::InvalidArgumentError(
        "is in Fortran order, expected C order (numpy.ascontiguousarray)");
  }
  TokenLayout layout;
  layout.data_begin = header.data_begin;
  layout.count = header.shape[0];
  if (header.shape.size() == 2) {
    layout.row_length = header.shape[1];
    if (__builtin_mul_overflow(layout.count, layout.row_length, &layout.count)) {
      return InvalidArgument("shape ", shape, " overflows 63 bits");
    }
  }
  if (layout.count == 0) return InvalidArgument("shape ", shape, " holds no tokens");
  int64_t expected = 0;
  if (__builtin_mul_overflow(layout.count, static_cast<int64_t>(element_bytes), &expected) ||
      expected != static_cast<int64_t>(file_bytes - header.data_begin)) {
    return InvalidArgument("shape ", shape, " of ", element_bytes,
                           "-byte elements does not match the ", file_bytes - header.data_begin,
                           " bytes after the header; is the file truncated?");
  }
  return layout;
}

using SourceOr = absl::StatusOr<std::shared_ptr<const TokenSource>>;

SourceOr OpenNpy(RandomAccessFile file, int32_t vocab_size) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(kMostHeaderBytes));
  ZEROTH_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(head));
  ZEROTH_ASSIGN_OR_RETURN(const ElementType type, FindNpyType(header.descr));
  ZEROTH_ASSIGN_OR_RETURN(const TokenLayout layout, LayOutNpy(header, type.bytes, file.size()));
  return type.make(std::move(file), layout, vocab_size);
}

SourceOr OpenLlmc(RandomAccessFile file, int32_t vocab_size) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(kMostHeaderBytes));
  ZEROTH_ASSIGN_OR_RETURN(const LlmcHeader header, ParseLlmcHeader(head, file.size()));
  const TokenLayout layout = {kLlmcHeaderBytes, header.count, 0};
  return header.token_bytes == 2 ? Make<uint16_t>(std::move(file), layout, vocab_size)
                                 : Make<uint32_t>(std::move(file), layout, vocab_size);
}

SourceOr OpenMegatron(RandomAccessFile file, int32_t vocab_size) {
  const std::string index_path = MegatronIndexPath(file.path());
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile index_file, RandomAccessFile::Open(index_path));
  const absl::StatusOr<MegatronIndex> index = ReadMegatronIndex(index_file);
  if (!index.ok()) return Annotate(index.status(), index_path);
  const int64_t expected = index->tokens * static_cast<int64_t>(index->token_bytes);
  if (static_cast<int64_t>(file.size()) != expected) {
    return InvalidArgument(file.size(), " bytes, expected ", expected, " for the ", index->tokens,
                           " tokens of ", index->token_bytes, " bytes in ", index_path,
                           "; is the file truncated?");
  }
  const TokenLayout layout = {0, index->tokens, 0};
  constexpr Maker kMakers[] = {nullptr,        &Make<uint8_t>, &Make<int8_t>,
                               &Make<int16_t>, &Make<int32_t>, &Make<int64_t>,
                               nullptr,        nullptr,        &Make<uint16_t>};
  return kMakers[index->type_code](std::move(file), layout, vocab_size);
}

SourceOr OpenAs(SourceOr (*open)(RandomAccessFile, int32_t), const std::string& path,
                int32_t vocab_size) {
  ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  SourceOr source = open(std::move(file), vocab_size);
  if (!source.ok()) return Annotate(source.status(), path);
  return source;
}

}  // namespace

std::shared_ptr<const TokenSource> BytesAsTokens(RandomAccessFile file) {
  const TokenLayout layout = {0, static_cast<int64_t>(file.size()), 0};
  return Make<uint8_t>(std::move(file), layout, /*vocab_size=*/256);
}

SourceOr OpenNpyFile(const std::string& path, int32_t vocab_size) {
  return OpenAs(OpenNpy, path, vocab_size);
}

SourceOr OpenMegatronFile(const std::string& path, int32_t vocab_size) {
  return OpenAs(OpenMegatron, path, vocab_size);
}

SourceOr OpenLlmcFile(const std::string& path, int32_t vocab_size) {
  return OpenAs(OpenLlmc, path, vocab_size);
}

}  // namespace zeroth
