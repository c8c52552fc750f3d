// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/weights_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Bytes that are read at a time where they are converted; a multiple of every type's size.
constexpr size_t kPieceBytes = size_t{256} << 10;

// Returns the number of characters that two names share at both ends: "transformer.wte.weight" is
// near "wte.weight".
size_t Likeness(absl::string_view a, absl::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t prefix = 0;
  while (prefix < limit && a[prefix] == b[prefix]) ++prefix;
  size_t suffix = 0;
  while (suffix < limit && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix]) ++suffix;
  return std::min(prefix + suffix, limit);
}

}  // namespace

bool IsTokenEmbedding(absl::string_view parameter) {
  return absl::EndsWith(parameter, "wte.weight") ||
         absl::EndsWith(parameter, "embed_tokens.weight");
}

std::vector<std::string> WeightsSource::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

const SafetensorsEntry* WeightsSource::Find(absl::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string WeightsSource::StoredName(const std::string& name) const {
  const std::string shorter = name.substr(name.find('.') + 1);
  return Find(name) == nullptr && Find(shorter) != nullptr ? shorter : name;
}

absl::Status WeightsSource::MissingTensor(absl::string_view name) const {
  std::vector<std::string> all = names();
  const size_t shown = std::min<size_t>(3, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                    [name](const std::string& a, const std::string& b) {
                      const size_t a_likeness = Likeness(a, name);
                      const size_t b_likeness = Likeness(b, name);
                      return a_likeness != b_likeness ? a_likeness > b_likeness : a < b;
                    });
  const size_t total = all.size();
  all.resize(shown);
  return absl::NotFoundError(
      absl::StrCat(description(), ": no tensor \"", name, "\" among its ", total, " tensors",
                   shown > 0 ? "; the nearest names are " : "", absl::StrJoin(all, ", ")));
}

absl::StatusOr<Shape> WeightsSource::ShapeOf(absl::string_view name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  return entry->shape;
}

absl::StatusOr<std::vector<float>> WeightsSource::ReadAll(absl::string_view name,
                                                          const Shape& expected) const {
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(name));
  if (shape != expected) {
    return InvalidArgument(description(), ": tensor \"", name, "\" has shape ", shape.ToString(),
                           ", expected ", expected.ToString());
  }
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  ZEROTH_RETURN_IF_ERROR(ReadElements(name, 0, absl::MakeSpan(values)));
  return values;
}

absl::Status TensorFile::ReadElements(absl::string_view name, int64_t begin,
                                      absl::Span<float> out) const {
  const SafetensorsEntry* const found = Find(name);
  if (found == nullptr) return MissingTensor(name);
  const SafetensorsEntry& entry = *found;
  if (!ConvertsToFloat32(entry.dtype)) {
    return InvalidArgument(description(), ": tensor \"", name, "\" is ",
                           SafetensorsDTypeName(entry.dtype), ", expected F32, F16, BF16 or F64");
  }
  const int64_t numel = entry.shape.numel();
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat(
        description(), ": elements [", begin, ", ", begin, " + ", count, ") of tensor \"", name,
        "\", which has ", numel, " in shape ", entry.shape.ToString()));
  }
  const auto size = static_cast<size_t>(BitsOf(entry.dtype) / 8);
  auto from = static_cast<size_t>(data_begin_ + entry.begin) + static_cast<size_t>(begin) * size;
  if (entry.dtype == SafetensorsDType::kF32) {
    return file_.Read(from, absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), out.size() * 4));
  }
  std::vector<uint8_t> piece(std::min(out.size() * size, kPieceBytes));
  while (!out.empty()) {
    const size_t bytes = std::min(out.size() * size, piece.size());
    ZEROTH_RETURN_IF_ERROR(file_.Read(from, absl::MakeSpan(piece).subspan(0, bytes)));
    ConvertToFloat32(entry.dtype, piece.data(), out.subspan(0, bytes / size));
    out.remove_prefix(bytes / size);
    from += bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint8_t>> TensorFile::RawBytes(absl::string_view name, int64_t begin,
                                                          int64_t end) const {
  const SafetensorsEntry* const entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  end = std::clamp<int64_t>(end, 0, entry->end - entry->begin);
  begin = std::clamp<int64_t>(begin, 0, end);
  std::vector<uint8_t> bytes(static_cast<size_t>(end - begin));
  ZEROTH_RETURN_IF_ERROR(
      file_.Read(static_cast<size_t>(data_begin_ + entry->begin + begin), absl::MakeSpan(bytes)));
  return bytes;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(file));
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(std::move(file), std::move(header)));
}

}  // namespace zeroth
