// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Enough for a header without a vocabulary.
constexpr size_t kFirstHeadBytes = size_t{256} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path, GgufTypes types) {
  ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  for (size_t bytes = kFirstHeadBytes;; bytes *= 2) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(bytes));
    absl::StatusOr<GgufHeader> header = ParseGgufHeader(head, file.size(), path, types);
    if (absl::IsOutOfRange(header.status())) continue;
    ZEROTH_RETURN_IF_ERROR(header.status());
    return std::unique_ptr<GgufFile>(new GgufFile(std::move(file), *std::move(header)));
  }
}

absl::Status GgufFile::ReadElements(absl::string_view name, int64_t begin,
                                    absl::Span<float> out) const {
  const auto found = blocks_.find(name);
  if (found == blocks_.end()) return TensorFile::ReadElements(name, begin, out);
  const PackedShape one = {found->second};
  const int64_t numel = Find(name)->shape.numel();
  auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat(description(), ": elements [", begin, ", ", begin,
                                              " + ", count, ") of tensor \"", name,
                                              "\", which has ", numel));
  }
  // Reads 4096 blocks at a time. Only parts of the first and the last block may be needed.
  const int64_t step = one.block() * 4096;
  while (!out.empty()) {
    const int64_t first = begin / one.block() * one.block();
    count = std::min(static_cast<int64_t>(out.size()), first + step - begin);
    const int64_t blocks = (begin + count - first + one.block() - 1) / one.block();
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            RawBytes(name, first / one.block() * one.block_bytes(),
                                     (first / one.block() + blocks) * one.block_bytes()));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                            UnpackMatrix({found->second, blocks, one.block()}, bytes, {}));
    std::copy_n(values.begin() + (begin - first), count, out.begin());
    out.remove_prefix(static_cast<size_t>(count));
    begin += count;
  }
  return absl::OkStatus();
}

}  // namespace zeroth
