// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A file is its key as a line of JSON, a line with the checksum of the rest, and then the losses of
// each source, fp32 [rows, seq_len], little-endian. Readers know the first line and the size of a
// file of their key, so that they parse nothing and allocate no more than they need.

#include "zeroth/data/reference_cache.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

static_assert(std::endian::native == std::endian::little);

// The version of files. Those of other versions are not found.
constexpr int kFormat = 2;
constexpr size_t kChecksumLine = 17;  // with the end of the line

std::string HeaderOf(const ReferenceCacheKey& key) {
  const nlohmann::json header = {{"format", kFormat},
                                 {"recipe", key.recipe},
                                 {"data", key.data},
                                 {"rows", key.rows},
                                 {"seq_len", key.seq_len}};
  // Paths in a recipe need not be UTF-8.
  return header.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Span<const uint8_t> BytesOf(const std::vector<float>& losses) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(losses.data()),
                             losses.size() * sizeof(float));
}

absl::Status AddMarks(const TokenSource& source, ChecksumStream& checksum) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<uint8_t> marks;
  for (int64_t begin = 0; begin < source.size(); begin += kPiece) {
    marks.resize(static_cast<size_t>(std::min(kPiece, source.size() - begin)));
    ZEROTH_RETURN_IF_ERROR(source.ReadMarks(begin, absl::MakeSpan(marks)));
    checksum.Add(marks);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ChecksumOfRows(const Mixture& data) {
  ChecksumStream checksum;
  for (size_t i = 0; i < data.sources(); ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const uint64_t tokens, HashTokens(data.source(i)));
    const std::string text = ChecksumText(tokens);
    checksum.Add(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
    ZEROTH_RETURN_IF_ERROR(AddMarks(data.source(i), checksum));
  }
  return ChecksumText(checksum.Value());
}

std::string ReferenceCachePath(const std::string& directory, const ReferenceCacheKey& key) {
  return absl::StrCat(directory, "/", ChecksumText(ChecksumOf(HeaderOf(key))), ".reference");
}

absl::StatusOr<ReferenceLosses> ReadReferenceCache(const std::string& path,
                                                   const ReferenceCacheKey& key) {
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  const auto wrong = [&path](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, " ", what));
  };
  const std::string header = HeaderOf(key);
  size_t size = header.size() + kChecksumLine;
  for (const int64_t rows : key.rows) {
    size += static_cast<size_t>(rows * key.seq_len) * sizeof(float);
  }
  if (file.size() != size) {
    return wrong(absl::StrCat("has ", file.size(), " bytes, expected ", size));
  }
  std::string lines(header.size() + kChecksumLine, '\0');
  ZEROTH_RETURN_IF_ERROR(
      file.Read(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(lines.data()), lines.size())));
  if (!absl::StartsWith(lines, header)) return wrong("has losses of another key");
  ReferenceLosses losses;
  ChecksumStream checksum;
  size_t at = lines.size();
  for (const int64_t rows : key.rows) {
    std::vector<float>& of_source = losses.emplace_back(static_cast<size_t>(rows * key.seq_len));
    const size_t bytes = of_source.size() * sizeof(float);
    ZEROTH_RETURN_IF_ERROR(
        file.Read(at, absl::MakeSpan(reinterpret_cast<uint8_t*>(of_source.data()), bytes)));
    checksum.Add(BytesOf(of_source));
    at += bytes;
  }
  if (lines != absl::StrCat(header, ChecksumText(checksum.Value()), "\n")) {
    return wrong("does not have the checksum that it says");
  }
  return losses;
}

absl::Status WriteReferenceCache(const std::string& path, const ReferenceCacheKey& key,
                                 const ReferenceLosses& losses) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return ErrnoStatus(error.value(), absl::StrCat("create directory ", directory.string()));
  }
  ChecksumStream checksum;
  size_t bytes = 0;
  for (const std::vector<float>& of_source : losses) {
    checksum.Add(BytesOf(of_source));
    bytes += BytesOf(of_source).size();
  }
  std::string content = absl::StrCat(HeaderOf(key), ChecksumText(checksum.Value()), "\n");
  content.reserve(content.size() + bytes);
  for (const std::vector<float>& of_source : losses) {
    content.append(reinterpret_cast<const char*>(of_source.data()),
                   of_source.size() * sizeof(float));
  }
  return ReplaceFile(path, content);
}

}  // namespace zeroth
