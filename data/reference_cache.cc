// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A file is a line of JSON, its header, and then the losses of each source, fp32 [rows, seq_len],
// little-endian.

#include "zeroth/data/reference_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

static_assert(std::endian::native == std::endian::little);

// The version of files. Those of other versions are not found.
constexpr int kFormat = 1;

nlohmann::json HeaderOf(const ReferenceCacheKey& key) {
  return {{"format", kFormat},
          {"recipe", key.recipe},
          {"data", key.data},
          {"rows", key.rows},
          {"seq_len", key.seq_len}};
}

// Paths in a recipe need not be UTF-8.
std::string TextOf(const nlohmann::json& header) {
  return header.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
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
  return absl::StrCat(directory, "/", ChecksumText(ChecksumOf(TextOf(HeaderOf(key)))),
                      ".reference");
}

absl::StatusOr<ReferenceLosses> ReadReferenceCache(const std::string& path,
                                                   const ReferenceCacheKey& key) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  const auto wrong = [&path](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, " ", what));
  };
  const size_t end = content.find('\n');
  if (end == std::string::npos) return wrong("has no header");
  auto header = nlohmann::json::parse(content.substr(0, end), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return wrong("has no header");
  const absl::string_view values = absl::string_view(content).substr(end + 1);
  if (header.value("checksum", nlohmann::json()) != ChecksumText(ChecksumOf(values))) {
    return wrong("does not have the checksum that its header says");
  }
  header.erase("checksum");
  if (TextOf(header) != TextOf(HeaderOf(key))) return wrong("has losses of another key");
  ReferenceLosses losses;
  size_t at = 0;
  for (const int64_t rows : key.rows) {
    std::vector<float>& of_source = losses.emplace_back(static_cast<size_t>(rows * key.seq_len));
    const size_t bytes = of_source.size() * sizeof(float);
    if (values.size() - at < bytes) return wrong("has too few losses");
    std::memcpy(of_source.data(), values.data() + at, bytes);
    at += bytes;
  }
  if (at != values.size()) return wrong("has too many losses");
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
  std::string values;
  for (const std::vector<float>& of_source : losses) {
    values.append(reinterpret_cast<const char*>(of_source.data()),
                  of_source.size() * sizeof(float));
  }
  nlohmann::json header = HeaderOf(key);
  header["checksum"] = ChecksumText(ChecksumOf(values));
  return ReplaceFile(path, absl::StrCat(TextOf(header), "\n", values));
}

}  // namespace zeroth
