// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace zeroth {

// A field of a message in the wire format of protocol buffers.
struct ProtobufField {
  static constexpr uint64_t kVarint = 0, kEightBytes = 1, kDelimited = 2, kFourBytes = 5;

  uint64_t number = 0;
  uint64_t wire_type = kVarint;
  uint64_t varint = 0;      // of a kVarint
  absl::string_view bytes;  // of the other types: a part of the message
};

// Removes the field at the front of `message`, which must not be empty. False if it has no field
// there, or one of an unknown type or longer than the message.
bool TakeProtobufField(absl::string_view* message, ProtobufField* field);

}  // namespace zeroth
