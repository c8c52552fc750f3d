// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

// Magic, version (8 bytes), type of tokens (1), sequences (8), entries of the documents' array (8).
constexpr size_t kMagicBytes = 9;
constexpr size_t kHeaderBytes = kMagicBytes + 8 + 1 + 8 + 8;

struct TokenType {
  const char* name;
  size_t bytes;
};

// The types by code; 0 is unused.
constexpr TokenType kTypes[] = {{"", 0},        {"uint8", 1},   {"int8", 1},
                                {"int16", 2},   {"int32", 4},   {"int64", 8},
                                {"float64", 8}, {"float32", 4}, {"uint16", 2}};

template <typename T>
T ValueAt(absl::Span<const uint8_t> bytes, size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  return value;
}

// Hands the `count` values that begin at byte `begin` to `check` with their indices, in order.
template <typename T>
absl::Status ForEach(const RandomAccessFile& file, size_t begin, int64_t count,
                     absl::FunctionRef<absl::Status(int64_t, int64_t)> check) {
  std::array<T, 8192> values;
  for (int64_t first = 0; first < count;) {
    const size_t piece = std::min(values.size(), static_cast<size_t>(count - first));
    ZEROTH_RETURN_IF_ERROR(
        file.Read(begin + static_cast<size_t>(first) * sizeof(T),
                  absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), piece * sizeof(T))));
    for (size_t i = 0; i < piece; ++i, ++first) {
      ZEROTH_RETURN_IF_ERROR(check(first, static_cast<int64_t>(values[i])));
    }
  }
  return absl::OkStatus();
}

// Lengths and pointers are read side by side, so that neither is held in memory.
absl::Status CheckSequences(const RandomAccessFile& file, MegatronIndex& index) {
  constexpr int64_t kPiece = 8192;
  std::vector<int32_t> lengths;
  for (int64_t first = 0; first < index.sequences; first += kPiece) {
    const int64_t count = std::min(kPiece, index.sequences - first);
    lengths.clear();
    ZEROTH_RETURN_IF_ERROR(ForEach<int32_t>(
        file, kHeaderBytes + 4 * static_cast<size_t>(first), count, [&](int64_t i, int64_t length) {
          lengths.push_back(static_cast<int32_t>(length));
          if (length >= 0) return absl::OkStatus();
          return InvalidArgument("sequence ", first + i, " has ", length,
                                 " tokens, expected 0 or more");
        }));
    const size_t pointers = kHeaderBytes + 4 * static_cast<size_t>(index.sequences);
    ZEROTH_RETURN_IF_ERROR(ForEach<int64_t>(
        file, pointers + 8 * static_cast<size_t>(first), count, [&](int64_t i, int64_t pointer) {
          const int64_t expected = index.tokens * static_cast<int64_t>(index.token_bytes);
          if (pointer != expected) {
            return InvalidArgument(
                "sequence ", first + i, " begins at byte ", pointer, " of the .bin file, expected ",
                expected, ", the end of the sequence before it; write the dataset anew with ",
                "Megatron-LM's tools/merge_datasets.py or preprocess_data.py");
          }
          index.tokens += lengths[static_cast<size_t>(i)];
          return absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

absl::Status CheckDocuments(const RandomAccessFile& file, size_t begin, int64_t count,
                            int64_t sequences) {
  int64_t before = 0;
  ZEROTH_RETURN_IF_ERROR(ForEach<int64_t>(
      file, begin, count, [&before, count, sequences](int64_t i, int64_t sequence) {
        const bool is_bad = sequence < before || sequence > sequences ||
                            (i == 0 && sequence != 0) || (i == count - 1 && sequence != sequences);
        if (is_bad) {
          return InvalidArgument("document ", i, " begins at sequence ", sequence, " of ",
                                 sequences,
                                 ", expected indices that rise from 0 to the number of sequences");
        }
        before = sequence;
        return absl::OkStatus();
      }));
  return absl::OkStatus();
}

}  // namespace

std::string MegatronIndexPath(const std::string& bin) {
  return absl::StrCat(absl::StripSuffix(bin, ".bin"), ".idx");
}

std::string MegatronTokensPath(const std::string& idx) {
  return absl::StrCat(absl::StripSuffix(idx, ".idx"), ".bin");
}

bool HasMegatronMagic(absl::Span<const uint8_t> file) {
  return file.size() >= kMagicBytes && std::memcmp(file.data(), kMegatronMagic, kMagicBytes) == 0;
}

absl::StatusOr<MegatronIndex> ReadMegatronIndex(const RandomAccessFile& file) {
  static_assert(sizeof(kMegatronMagic) == kMagicBytes + 1);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(kHeaderBytes));
  if (!HasMegatronMagic(head)) {
    return absl::InvalidArgumentError(
        "does not begin with the magic \"MMIDIDX\\0\\0\" of Megatron-LM's indexed datasets");
  }
  if (head.size() < kHeaderBytes) {
    return InvalidArgument("truncated: ", head.size(), " bytes, expected a header of ",
                           kHeaderBytes);
  }
  if (const auto version = ValueAt<uint64_t>(head, kMagicBytes); version != 1)
    return InvalidArgument("version ", version, " at byte ", kMagicBytes, ", expected 1");
  const size_t code = head[kMagicBytes + 8];
  const absl::string_view type = code < std::size(kTypes) ? kTypes[code].name : "";
  if (type.empty() || type[0] == 'f') {
    return InvalidArgument("elements of type ", code, type.empty() ? "" : " (", type,
                           type.empty() ? "" : ")", " at byte ", kMagicBytes + 8,
                           ", expected token ids: uint8, int8, int16, int32, int64 or uint16 "
                           "(codes 1 to 5 and 8)");
  }
  const auto sequences = ValueAt<uint64_t>(head, kMagicBytes + 9);
  const auto entries = ValueAt<uint64_t>(head, kMagicBytes + 17);
  const uint64_t rest = file.size() - kHeaderBytes;
  // Divided first, because the products may overflow.
  const bool fits = sequences <= rest / 12 && entries <= rest / 8;
  const uint64_t expected = fits ? 12 * sequences + 8 * entries : 0;
  const bool has_modes = fits && rest == expected + sequences && sequences > 0;
  if (!fits || (rest != expected && !has_modes)) {
    return InvalidArgument(rest, " bytes after the header do not match ", sequences,
                           " sequences of 12 bytes (13 with modes) and ", entries,
                           " documents' indices of 8; is the file truncated?");
  }
  MegatronIndex index;
  index.type_code = static_cast<int>(code);
  index.token_bytes = kTypes[code].bytes;
  index.sequences = static_cast<int64_t>(sequences);
  index.documents = std::max<int64_t>(static_cast<int64_t>(entries) - 1, 0);
  // 2^31 tokens of each of fewer than 2^29 sequences would overflow 63 bits in bytes.
  if (index.sequences > int64_t{1} << 28)
    return InvalidArgument(index.sequences, " sequences, expected at most ", int64_t{1} << 28);
  ZEROTH_RETURN_IF_ERROR(CheckSequences(file, index));
  if (index.tokens == 0) return absl::InvalidArgumentError("holds no tokens");
  if (entries < 2) {
    return InvalidArgument(entries, " documents' indices, expected 2 at least: 0 and ",
                           index.sequences);
  }
  ZEROTH_RETURN_IF_ERROR(CheckDocuments(file, kHeaderBytes + 12 * sequences,
                                        static_cast<int64_t>(entries), index.sequences));
  if (!has_modes) return index;
  ZEROTH_RETURN_IF_ERROR(
      ForEach<uint8_t>(file, kHeaderBytes + expected, index.sequences, [](int64_t i, int64_t mode) {
        return mode == 0 ? absl::OkStatus()
                         : InvalidArgument("sequence ", i, " has mode ", mode,
                                           ", expected 0 (text); other modes are images or "
                                           "sound, which are not trained on");
      }));
  return index;
}

}  // namespace zeroth
