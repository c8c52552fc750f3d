// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/protobuf.h"

namespace zeroth {
namespace {

// Removes a variable-length number from the front; false if there is none.
bool TakeVarint(absl::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

bool TakeProtobufField(absl::string_view* message, ProtobufField* field) {
  uint64_t tag = 0;
  uint64_t length = 0;
  if (!TakeVarint(message, &tag)) return false;
  *field = ProtobufField();
  field->number = tag >> 3;
  field->wire_type = tag & 7;
  switch (field->wire_type) {
    case ProtobufField::kVarint:
      return TakeVarint(message, &field->varint);
    case ProtobufField::kDelimited:
      if (!TakeVarint(message, &length)) return false;
      break;
    case ProtobufField::kEightBytes:
      length = 8;
      break;
    case ProtobufField::kFourBytes:
      length = 4;
      break;
    default:
      return false;
  }
  if (length > message->size()) return false;
  field->bytes = message->substr(0, length);
  message->remove_prefix(length);
  return true;
}

}  // namespace zeroth
