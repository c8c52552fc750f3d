// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Fields in the wire format of protocol buffers. Numbers and types are those of tensorflow's
// event.proto, summary.proto and tensor.proto.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

template <typename T>
std::string Fixed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Tag(int field, WireType type) {
  return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}
std::string VarintField(int field, uint64_t value) {
  return absl::StrCat(Tag(field, kVarint), Varint(value));
}
std::string BytesField(int field, absl::string_view bytes) {
  return absl::StrCat(Tag(field, kBytes), Varint(bytes.size()), bytes);
}

// An event has a few hundred bytes, so the bitwise algorithm is fast enough.
uint32_t MaskedCrc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  // TFRecord masks checksums, because checksums of data that contain checksums are weak.
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(const std::string& directory, int64_t last_step) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const std::string path =
      absl::StrCat(directory, "/", kEventFilePrefix, absl::ToUnixSeconds(absl::Now()), ".",
                   host[0] == '\0' ? "localhost" : host, ".", getpid());
  ZEROTH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path, O_TRUNC));
  EventFile events(std::move(file));
  ZEROTH_RETURN_IF_ERROR(
      events.WriteEvent(0, BytesField(/*Event.file_version*/ 3, "brain.Event:2")));
  if (last_step > 0) {
    // SessionLog.status = START: entries of other files for this step and later ones are outdated.
    ZEROTH_RETURN_IF_ERROR(events.WriteEvent(
        last_step + 1, BytesField(/*Event.session_log*/ 7, VarintField(/*status*/ 1, 1))));
  }
  return events;
}

absl::Status EventFile::WriteScalars(int64_t step, absl::Span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    absl::StrAppend(&summary, BytesField(/*Summary.value*/ 1,
                                         absl::StrCat(BytesField(/*tag*/ 1, scalar.tag),
                                                      Tag(/*simple_value*/ 2, kFixed32),
                                                      Fixed(static_cast<float>(scalar.value)))));
  }
  return WriteEvent(step, BytesField(/*Event.summary*/ 5, summary));
}

absl::Status EventFile::WriteText(int64_t step, absl::string_view tag, absl::string_view markdown) {
  const std::string plugin =
      BytesField(/*SummaryMetadata.plugin_data*/ 1, BytesField(/*plugin_name*/ 1, "text"));
  const std::string shape = BytesField(/*TensorShapeProto.dim*/ 2, VarintField(/*size*/ 1, 1));
  const std::string tensor =
      absl::StrCat(VarintField(/*TensorProto.dtype, DT_STRING*/ 1, 7),
                   BytesField(/*tensor_shape*/ 2, shape), BytesField(/*string_val*/ 8, markdown));
  return WriteEvent(step, BytesField(/*Event.summary*/ 5,
                                     BytesField(/*Summary.value*/ 1,
                                                absl::StrCat(BytesField(/*tag*/ 1, tag),
                                                             BytesField(/*tensor*/ 8, tensor),
                                                             BytesField(/*metadata*/ 9, plugin)))));
}

absl::Status EventFile::WriteEvent(int64_t step, const std::string& rest) {
  const std::string event =
      absl::StrCat(Tag(/*Event.wall_time*/ 1, kFixed64),
                   Fixed(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())),
                   VarintField(/*step*/ 2, static_cast<uint64_t>(step)), rest);
  const std::string length = Fixed(static_cast<uint64_t>(event.size()));
  return file_.Append(
      absl::StrCat(length, Fixed(MaskedCrc32c(length)), event, Fixed(MaskedCrc32c(event))));
}

}  // namespace zeroth
