// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The messages between ranks and the coordinator, and how values are encoded in them. A message is
// a frame whose first byte is its type. The fields follow in the order given here.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective.h"

namespace zeroth {

// Encodes values as bytes of a message between processes: fixed-width integers in little-endian
// order, and strings after their length.
class WireWriter {
 public:
  WireWriter& U8(uint8_t value) { return Bytes(value, 1); }
  WireWriter& U32(uint32_t value) { return Bytes(value, 4); }
  WireWriter& I32(int32_t value) { return U32(static_cast<uint32_t>(value)); }
  WireWriter& U64(uint64_t value) { return Bytes(value, 8); }
  WireWriter& String(absl::string_view value) {
    U32(static_cast<uint32_t>(value.size()));
    bytes_.append(value.data(), value.size());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  WireWriter& Bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string bytes_;
};

// Decodes what a WireWriter wrote. After the first read past the end, values are 0 or empty, and
// ok() is false.
class WireReader {
 public:
  // `bytes` must outlive the reader.
  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Bytes(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Bytes(4)); }
  int32_t I32() { return static_cast<int32_t>(U32()); }
  uint64_t U64() { return Bytes(8); }
  std::string String() { return std::string(View()); }
  // Like String, without a copy: valid as long as the bytes.
  absl::string_view View() {
    const size_t size = U32();
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      return "";
    }
    const absl::string_view value = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return value;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return bytes_.empty(); }
  // Marks the bytes as malformed.
  void Fail() { ok_ = false; }
  // True if all bytes were read, and no read went past the end.
  bool IsComplete() const { return ok_ && bytes_.empty(); }

 private:
  uint64_t Bytes(size_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value |= uint64_t{static_cast<uint8_t>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(count);
    return value;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

inline constexpr uint32_t kProtocolMagic = 0x5a524f54;
inline constexpr uint32_t kProtocolVersion = 6;
// The number of the group of all ranks. Splits number the other groups.
inline constexpr uint32_t kWorldGroup = 0;

enum class MessageType : uint8_t {
  // From a rank.
  kHello = 1,  // magic, version, job id, nonce (handshake.h)
  kCall,       // group, 1 if the rank waits for the answer, at least one call (WriteCall)
  kSplit,      // group, color, key
  kLeave,      // group
  kBreak,      // status
  kReturned,   // status
  kMeet,       // group, value
  kJoin,       // world size, rank, back end, proof
  kAwait,      // group, number of calls: the rank waits until all have posted as many
  kPing,       // no fields: answered by kPong, at once
  // To a rank.
  kWelcome = 64,  // no fields: all ranks have joined
  kRefused,       // status
  kAgreed,        // group, number of matching calls that all its ranks have posted
  kBroken,        // status
  kSeat,          // group, new group (kNoGroup: none), rank, world ranks (WriteRanks)
  kAllReturned,   // status
  kMet,           // group, a part of the members' values (MeetingAnswer)
  kChallenge,     // nonce, proof
  kAnotherJob,    // no fields: the rank is of another job than the coordinator
  kJoined,        // no fields: the rank has joined
  kPong,          // no fields
};

// After half of the timeout without a message a rank sends a ping. It is answered within this time,
// and comes within this time, unless a process is stopped or the network is lost.
inline constexpr int kPingGraceMs = 5000;

inline constexpr uint32_t kNoGroup = 0xffffffff;

inline WireWriter Message(MessageType type) {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(type));
  return writer;
}

// Returns a message whose only field is a status.
WireWriter StatusMessage(MessageType type, const absl::Status& status);
absl::Status ReadStatus(WireReader& reader);

// Writes a call as a string, which ReadCall decodes.
void WriteCall(const CollectiveCall& call, WireWriter& writer);
// Returns std::nullopt if the bytes are not a call.
std::optional<CollectiveCall> ReadCall(absl::string_view bytes);

// Writes ranks in any order. Evenly spaced ones, as the ranks of most groups are, take few bytes.
void WriteRanks(absl::Span<const int> ranks, WireWriter& writer);
// Reads what WriteRanks wrote. The reader fails if there are more than `most`.
std::vector<int> ReadRanks(WireReader& reader, int most);

// The answer to a group's meeting: the value of each rank. Each value is sent once, with the number
// of consecutive ranks that passed it, and afterwards referred to by its number. The values of a
// large world may exceed a frame, so the answer comes in parts.
class MeetingAnswer {
 public:
  // Returns the answer as messages, each longer than 64 KiB by at most its last value.
  static std::vector<std::string> Messages(uint32_t group, absl::Span<const std::string> values);

  // Adds the part that `reader` holds after the group's number. Returns false for bytes that are
  // not a part, or that have values of more than `most` ranks.
  bool Add(WireReader& reader, int most);
  bool IsComplete() const { return size_ > 0 && values_.size() == size_; }
  std::vector<std::string> TakeValues() { return std::move(values_); }

 private:
  size_t size_ = 0;  // the number of ranks
  std::vector<std::string> values_;
  std::vector<std::string> distinct_;
};

}  // namespace zeroth
