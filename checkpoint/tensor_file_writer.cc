// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/tensor_file_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Elements that Write rounds at a time, on the stack.
constexpr size_t kChunk = 4096;

absl::Status TooLarge(const std::string& path) {
  return InvalidArgument(path, ": the sizes of the tensors overflow 63 bits");
}

constexpr int64_t kDataAlignment = 64;

using Json = nlohmann::json;

std::string JsonString(absl::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor has an empty name");
  if (name == "__metadata__") {
    return absl::InvalidArgumentError(
        "a tensor is named \"__metadata__\", which the format reserves");
  }
  // The library replaces invalid UTF-8, so a name that changes was not UTF-8.
  if (Json::parse(JsonString(name), nullptr, false) != Json(std::string(name))) {
    return InvalidArgument("the tensor name \"", JsonString(name), "\" is not UTF-8");
  }
  return absl::OkStatus();
}

std::string EntryText(absl::string_view name, const SafetensorsEntry& entry) {
  const Json shape = std::vector<int64_t>(entry.shape.dims().begin(), entry.shape.dims().end());
  return absl::StrCat(JsonString(name), ":{\"dtype\":\"", SafetensorsDTypeName(entry.dtype),
                      "\",\"shape\":", shape.dump(), ",\"data_offsets\":[", entry.begin, ",",
                      entry.end, "]}");
}

// The header's length and JSON, padded so that the data begin aligned.
absl::StatusOr<std::string> HeaderText(const std::string& path, const TensorEntries& entries,
                                       const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&text, "\"__metadata__\":",
                    Json(metadata).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  for (const auto& [name, entry] : entries) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", EntryText(name, entry));
  }
  text += "}";
  const auto unpadded = static_cast<int64_t>(text.size()) + 8;
  const int64_t length = (unpadded + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8;
  if (length > kMaxSafetensorsHeaderBytes) {
    return InvalidArgument(path, ": ", entries.size(), " tensors need a header of ", length,
                           " bytes, readers accept ", kMaxSafetensorsHeaderBytes);
  }
  text.resize(static_cast<size_t>(length), ' ');
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header + text;
}

}  // namespace

bool RangeSet::Insert(int64_t begin, int64_t end) {
  ZEROTH_CHECK(begin <= end);
  if (begin == end) return true;
  auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < end) return false;
  const bool has_previous = next != ranges_.begin();
  if (has_previous && std::prev(next)->second > begin) return false;
  if (next != ranges_.end() && next->first == end) {
    end = next->second;
    next = ranges_.erase(next);
  }
  if (has_previous && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
    return true;
  }
  ranges_.emplace_hint(next, begin, end);
  return true;
}

std::optional<std::pair<int64_t, int64_t>> RangeSet::FirstGap(int64_t size) const {
  // Adjacent ranges are merged, so only the first one can reach back to zero.
  const bool from_zero = !ranges_.empty() && ranges_.begin()->first == 0;
  const int64_t covered = from_zero ? ranges_.begin()->second : 0;
  if (covered >= size) return std::nullopt;
  const auto next = ranges_.upper_bound(covered);
  return std::pair(covered, next == ranges_.end() ? size : std::min(size, next->first));
}

absl::StatusOr<TensorLayout> LayOutTensors(const std::string& path,
                                           absl::Span<const TensorDeclaration> tensors,
                                           int64_t alignment) {
  TensorLayout layout;
  int64_t& offset = layout.data_bytes;
  for (const TensorDeclaration& tensor : tensors) {
    const std::string where = absl::StrCat(path, ": tensor \"", tensor.name, "\"");
    const auto [place, fresh] = layout.entries.try_emplace(tensor.name);
    if (!fresh) return InvalidArgument(where, " is declared twice");
    SafetensorsEntry& entry = place->second;
    entry.dtype = ToSafetensorsDType(tensor.dtype);
    entry.shape = tensor.shape;
    auto bytes = SafetensorsBytes(entry.dtype, entry.shape.dims());
    if (!bytes.ok()) return Annotate(bytes.status(), where);
    entry.begin = offset;
    if (__builtin_add_overflow(offset, *bytes, &entry.end) ||
        __builtin_add_overflow(entry.end, alignment - 1, &offset)) {
      return TooLarge(path);
    }
    offset -= offset % alignment;
  }
  return layout;
}

TensorFileWriter::TensorFileWriter(std::string path, TemporaryPath temporary, int64_t data_begin)
    : path_(std::move(path)),
      temporary_(std::move(temporary.path)),
      data_begin_(data_begin),
      file_(std::move(temporary.file)) {}

TensorFileWriter::~TensorFileWriter() {
  if (file_.is_open()) unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::Create(std::string path,
                                                                           std::string header,
                                                                           TensorLayout layout) {
  const auto data_begin = static_cast<int64_t>(header.size());
  int64_t size = 0;
  if (__builtin_add_overflow(data_begin, layout.data_bytes, &size)) return TooLarge(path);
  RemoveDeadTemporaries(path);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryFile(path));
  std::unique_ptr<TensorFileWriter> writer(
      new TensorFileWriter(std::move(path), std::move(temporary), data_begin));
  const int fd = writer->file_.descriptor();
  for (auto& [name, entry] : layout.entries) writer->slots_[name].entry = std::move(entry);
  ZEROTH_RETURN_IF_ERROR(
      WriteAt(fd, writer->temporary_, 0,
              absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(header.data()), header.size())));
  if (TEMP_FAILURE_RETRY(ftruncate(fd, size)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("extend ", writer->temporary_, " to ", size, " bytes"));
  }
  return writer;
}

absl::StatusOr<TensorFileWriter::Slot*> TensorFileWriter::FindSlot(absl::string_view name) {
  if (!file_.is_open()) return FailedPrecondition(path_, ": written to after Finish");
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": tensor \"", name, "\" was not declared"));
  }
  return &found->second;
}

absl::Status TensorFileWriter::ReserveBytes(absl::string_view name, Slot& slot, int64_t begin,
                                            int64_t end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slot.written.Insert(begin, end)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path_, ": some of the bytes [", begin, ", ", end,
                                               ") of tensor \"", name, "\" were written before"));
}

absl::Status TensorFileWriter::WriteBytes(absl::string_view name, int64_t begin,
                                          absl::Span<const uint8_t> bytes) {
  ZEROTH_ASSIGN_OR_RETURN(Slot* const slot, FindSlot(name));
  const auto count = static_cast<int64_t>(bytes.size());
  const int64_t size = slot->entry.end - slot->entry.begin;
  if (begin < 0 || count > size || begin > size - count) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": bytes [", begin, ", ", begin, " + ", count,
                                              ") of tensor \"", name, "\", which has ", size,
                                              " in shape ", slot->entry.shape.ToString()));
  }
  ZEROTH_RETURN_IF_ERROR(ReserveBytes(name, *slot, begin, begin + count));
  absl::Status status =
      WriteAt(file_.descriptor(), temporary_, data_begin_ + slot->entry.begin + begin, bytes);
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  return status;
}

absl::Status TensorFileWriter::Write(absl::string_view name, int64_t begin,
                                     absl::Span<const float> values) {
  ZEROTH_ASSIGN_OR_RETURN(const Slot* const slot, FindSlot(name));
  const SafetensorsDType dtype = slot->entry.dtype;
  if (!ConvertsToFloat32(dtype)) {
    return InvalidArgument(path_, ": float values for tensor \"", name, "\", which is ",
                           SafetensorsDTypeName(dtype));
  }
  const int64_t numel = slot->entry.shape.numel();
  const auto count = static_cast<int64_t>(values.size());
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": elements [", begin, ", ", begin, " + ",
                                              count, ") of tensor \"", name, "\", which has ",
                                              numel, " in shape ", slot->entry.shape.ToString()));
  }
  if (dtype == SafetensorsDType::kF32) {
    return WriteBytes(
        name, begin * 4,
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4));
  }
  uint8_t rounded[kChunk * 2];
  while (!values.empty()) {
    const absl::Span<const float> chunk = values.subspan(0, kChunk);
    ConvertFromFloat32(dtype == SafetensorsDType::kBF16 ? DType::kBFloat16 : DType::kFloat16, chunk,
                       rounded);
    ZEROTH_RETURN_IF_ERROR(
        WriteBytes(name, begin * 2, absl::MakeConstSpan(rounded, chunk.size() * 2)));
    begin += static_cast<int64_t>(chunk.size());
    values.remove_prefix(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status TensorFileWriter::CheckComplete() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ZEROTH_RETURN_IF_ERROR(first_error_);
  for (const auto& [name, slot] : slots_) {
    if (const auto gap = slot.written.FirstGap(slot.entry.end - slot.entry.begin)) {
      return FailedPrecondition(path_, ": the bytes [", gap->first, ", ", gap->second,
                                ") of tensor \"", name, "\" (", slot.entry.end - slot.entry.begin,
                                " bytes) were never written");
    }
  }
  return absl::OkStatus();
}

absl::Status TensorFileWriter::Finish() {
  if (!file_.is_open()) return FailedPrecondition(path_, ": finished twice");
  ZEROTH_RETURN_IF_ERROR(CheckComplete());
  return PublishFile(file_, temporary_, path_);
}

absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  for (const TensorDeclaration& tensor : tensors) {
    ZEROTH_RETURN_IF_ERROR_WITH(CheckName(tensor.name), path);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  SafetensorsLayout layout;
  ZEROTH_ASSIGN_OR_RETURN(layout.tensors, LayOutTensors(path, tensors));
  ZEROTH_ASSIGN_OR_RETURN(layout.header, HeaderText(path, layout.tensors.entries, metadata));
  return layout;
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                          LayOutSafetensors(path, std::move(tensors), metadata));
  return TensorFileWriter::Create(path, std::move(layout.header), std::move(layout.tensors));
}

}  // namespace zeroth
