// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kDataAlignment = 64;
// Elements that Write rounds at a time, on the stack.
constexpr size_t kChunk = 4096;

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
  // The library replaces what is not UTF-8, so a name that comes back changed was not.
  if (Json::parse(JsonString(name), nullptr, false) != Json(std::string(name))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor name \"", JsonString(name), "\" is not UTF-8"));
  }
  return absl::OkStatus();
}

std::string EntryText(absl::string_view name, const SafetensorsEntry& entry) {
  const Json shape = std::vector<int64_t>(entry.shape.dims().begin(), entry.shape.dims().end());
  return absl::StrCat(JsonString(name), ":{\"dtype\":\"", SafetensorsDTypeName(entry.dtype),
                      "\",\"shape\":", shape.dump(), ",\"data_offsets\":[", entry.begin, ",",
                      entry.end, "]}");
}

template <typename T, typename Convert>
void RoundElements(absl::Span<const float> values, uint8_t* out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    std::map<std::string, std::string> metadata) {
  std::map<std::string, Slot, std::less<>> slots;
  for (TensorDeclaration& tensor : tensors) {
    ZEROTH_RETURN_IF_ERROR_WITH(CheckName(tensor.name), path);
    Slot slot;
    slot.entry.dtype = ToSafetensorsDType(tensor.dtype);
    slot.entry.shape = tensor.shape;
    if (!slots.emplace(tensor.name, std::move(slot)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor \"", tensor.name, "\" is declared twice"));
    }
  }
  int64_t offset = 0;
  for (auto& [name, slot] : slots) {
    auto bytes = SafetensorsBytes(slot.entry.dtype, slot.entry.shape.dims());
    if (!bytes.ok()) return Annotate(bytes.status(), absl::StrCat(path, ": tensor \"", name, "\""));
    slot.entry.begin = offset;
    if (__builtin_add_overflow(offset, *bytes, &offset)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the sizes of the tensors overflow 63 bits"));
    }
    slot.entry.end = offset;
  }
  std::string temporary = TemporarySibling(path, "tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("create ", temporary));
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, std::move(temporary), fd));
  writer->slots_ = std::move(slots);
  ZEROTH_RETURN_IF_ERROR(writer->WriteHeader(metadata));
  if (ftruncate(fd, writer->data_begin_ + offset) != 0) {
    return ErrnoStatus(errno, absl::StrCat("extend ", writer->temporary_, " to ",
                                           writer->data_begin_ + offset, " bytes"));
  }
  return writer;
}

absl::Status SafetensorsWriter::WriteHeader(const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&text, "\"__metadata__\":",
                    Json(metadata).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  for (const auto& [name, slot] : slots_) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", EntryText(name, slot.entry));
  }
  text += "}";
  const auto unpadded = static_cast<int64_t>(text.size()) + 8;
  data_begin_ = (unpadded + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  const int64_t length = data_begin_ - 8;
  if (length > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", slots_.size(), " tensors need a header of ", length,
                     " bytes, readers accept ", kMaxSafetensorsHeaderBytes));
  }
  text.resize(static_cast<size_t>(length), ' ');
  header_.assign(8, '\0');
  std::memcpy(header_.data(), &length, 8);
  header_ += text;
  return WriteAt(
      fd_, temporary_, 0,
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(header_.data()), header_.size()));
}

absl::StatusOr<SafetensorsWriter::Slot*> SafetensorsWriter::FindSlot(absl::string_view name) {
  if (fd_ < 0)
    return absl::FailedPreconditionError(absl::StrCat(path_, ": written to after Finish"));
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": tensor \"", name, "\" was not declared"));
  }
  return &found->second;
}

absl::StatusOr<int64_t> SafetensorsWriter::FileOffset(absl::string_view name) const {
  const auto found = slots_.find(name);
  if (found != slots_.end()) return data_begin_ + found->second.entry.begin;
  return absl::NotFoundError(absl::StrCat(path_, ": tensor \"", name, "\" was not declared"));
}

absl::Status SafetensorsWriter::Claim(absl::string_view name, Slot& slot, int64_t begin,
                                      int64_t end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slot.written.Insert(begin, end)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path_, ": some of the bytes [", begin, ", ", end,
                                               ") of tensor \"", name, "\" were written before"));
}

absl::Status SafetensorsWriter::WriteBytes(absl::string_view name, int64_t begin,
                                           absl::Span<const uint8_t> bytes) {
  ZEROTH_ASSIGN_OR_RETURN(Slot* const slot, FindSlot(name));
  const auto count = static_cast<int64_t>(bytes.size());
  const int64_t size = slot->entry.end - slot->entry.begin;
  if (begin < 0 || count > size || begin > size - count) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": bytes [", begin, ", ", begin, " + ", count,
                                              ") of tensor \"", name, "\", which has ", size,
                                              " in shape ", slot->entry.shape.ToString()));
  }
  ZEROTH_RETURN_IF_ERROR(Claim(name, *slot, begin, begin + count));
  absl::Status status = WriteAt(fd_, temporary_, data_begin_ + slot->entry.begin + begin, bytes);
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  return status;
}

absl::Status SafetensorsWriter::Write(absl::string_view name, int64_t begin,
                                      absl::Span<const float> values) {
  ZEROTH_ASSIGN_OR_RETURN(const Slot* const slot, FindSlot(name));
  const SafetensorsDType dtype = slot->entry.dtype;
  if (!ConvertsToFloat32(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": float values for tensor \"", name,
                                                   "\", which is ", SafetensorsDTypeName(dtype)));
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
    if (dtype == SafetensorsDType::kBF16) {
      RoundElements<BFloat16>(chunk, rounded, [](float value) { return ToBFloat16(value); });
    } else {
      RoundElements<Float16>(chunk, rounded, [](float value) { return ToFloat16(value); });
    }
    ZEROTH_RETURN_IF_ERROR(
        WriteBytes(name, begin * 2, absl::MakeConstSpan(rounded, chunk.size() * 2)));
    begin += static_cast<int64_t>(chunk.size());
    values.remove_prefix(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::CheckComplete() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ZEROTH_RETURN_IF_ERROR(first_error_);
  for (const auto& [name, slot] : slots_) {
    if (const auto gap = slot.written.FirstGap(slot.entry.end - slot.entry.begin)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": the bytes [", gap->first, ", ", gap->second, ") of tensor \"", name, "\" (",
          slot.entry.end - slot.entry.begin, " bytes) were never written"));
    }
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, ": finished twice"));
  ZEROTH_RETURN_IF_ERROR(CheckComplete());
  if (fsync(fd_) != 0) return ErrnoStatus(errno, absl::StrCat("flush ", temporary_));
  const bool closed = close(std::exchange(fd_, -1)) == 0;
  if (!closed || rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    return ErrnoStatus(error, closed ? absl::StrCat("rename ", temporary_, " to ", path_)
                                     : absl::StrCat("close ", temporary_));
  }
  return SyncDirectory(std::filesystem::path(path_).parent_path().string());
}

}  // namespace zeroth
