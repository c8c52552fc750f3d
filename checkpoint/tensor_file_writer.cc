// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/tensor_file_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Elements that Write rounds at a time, on the stack.
constexpr size_t kChunk = 4096;

template <typename T, typename Convert>
void RoundElements(absl::Span<const float> values, uint8_t* out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

TensorFileWriter::TensorFileWriter(std::string path, std::string temporary, std::string header,
                                   int fd)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      header_(std::move(header)),
      fd_(fd) {}

TensorFileWriter::~TensorFileWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::Create(std::string path,
                                                                           std::string header,
                                                                           Tensors tensors,
                                                                           int64_t data_bytes) {
  RemoveDeadTemporaries(path);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryFile(path));
  const int fd = temporary.fd;
  std::unique_ptr<TensorFileWriter> writer(
      new TensorFileWriter(std::move(path), std::move(temporary.path), std::move(header), fd));
  for (auto& [name, entry] : tensors) writer->slots_[name].entry = std::move(entry);
  const std::string& text = writer->header_;
  ZEROTH_RETURN_IF_ERROR(
      WriteAt(fd, writer->temporary_, 0,
              absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size())));
  const int64_t size = static_cast<int64_t>(text.size()) + data_bytes;
  if (TEMP_FAILURE_RETRY(ftruncate(fd, size)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("extend ", writer->temporary_, " to ", size, " bytes"));
  }
  return writer;
}

absl::StatusOr<TensorFileWriter::Slot*> TensorFileWriter::FindSlot(absl::string_view name) {
  if (fd_ < 0)
    return absl::FailedPreconditionError(absl::StrCat(path_, ": written to after Finish"));
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": tensor \"", name, "\" was not declared"));
  }
  return &found->second;
}

absl::StatusOr<int64_t> TensorFileWriter::FileOffset(absl::string_view name) const {
  const auto found = slots_.find(name);
  if (found != slots_.end())
    return static_cast<int64_t>(header_.size()) + found->second.entry.begin;
  return absl::NotFoundError(absl::StrCat(path_, ": tensor \"", name, "\" was not declared"));
}

absl::Status TensorFileWriter::Claim(absl::string_view name, Slot& slot, int64_t begin,
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
  ZEROTH_RETURN_IF_ERROR(Claim(name, *slot, begin, begin + count));
  absl::Status status = WriteAt(
      fd_, temporary_, static_cast<int64_t>(header_.size()) + slot->entry.begin + begin, bytes);
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

absl::Status TensorFileWriter::CheckComplete() const {
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

absl::Status TensorFileWriter::Finish() {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, ": finished twice"));
  ZEROTH_RETURN_IF_ERROR(CheckComplete());
  return PublishFile(&fd_, temporary_, path_);
}

}  // namespace zeroth
