// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The messages between ranks and the coordinator. A message is a frame whose first byte is its
// type. The fields follow in the order given here.

#ifndef ZEROTH_CORE_COMM_PROCESS_MESSAGES_H_
#define ZEROTH_CORE_COMM_PROCESS_MESSAGES_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/process/wire.h"

namespace zeroth {

inline constexpr uint32_t kProtocolMagic = 0x5a524f54;
inline constexpr uint32_t kProtocolVersion = 2;
// The number of the group of all ranks. Splits number the other groups.
inline constexpr uint32_t kWorldGroup = 0;

enum class MessageType : uint8_t {
  // From a rank.
  kHello = 1,  // magic, version, job id, nonce (handshake.h)
  kCall,       // group, call
  kSplit,      // group, color, key
  kLeave,      // group
  kBreak,      // status
  kReturned,   // status
  kPut,        // key, value
  kGet,        // key
  kMeet,       // group
  kJoin,       // world size, rank, back end, proof
  // To a rank.
  kWelcome = 64,  // no fields: all ranks have joined
  kRefused,       // status
  kAgreed,        // group, number of matching calls that all its ranks have posted
  kBroken,        // status
  kSeat,          // group (kNoGroup: none), rank, number of members, their world ranks
  kValue,         // key, value
  kAllReturned,   // status
  kMet,           // group
  kChallenge,     // nonce, proof
  kAnotherJob,    // no fields: the rank is of another job than the coordinator
  kJoined,        // no fields: the rank has joined
};

inline constexpr uint32_t kNoGroup = 0xffffffff;

inline WireWriter Message(MessageType type) {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(type));
  return writer;
}

void WriteStatus(const absl::Status& status, WireWriter& writer);
// Returns a message whose only field is a status.
WireWriter StatusMessage(MessageType type, const absl::Status& status);
absl::Status ReadStatus(WireReader& reader);

void WriteCall(const CollectiveCall& call, WireWriter& writer);
// Returns none if the bytes are not a call.
std::optional<CollectiveCall> ReadCall(WireReader& reader);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_MESSAGES_H_
