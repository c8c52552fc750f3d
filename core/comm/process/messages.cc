// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/messages.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "zeroth/core/comm/comm_stats.h"

namespace zeroth {
namespace {

// An optional value is written as the value plus one, and as this if it is missing.
constexpr uint32_t kNone = 0;
constexpr int kDTypeCount = static_cast<int>(DType::kUInt8) + 1;
constexpr int kReduceOpCount = static_cast<int>(ReduceOp::kMax) + 1;

// Returns the name of the operation with this code on the wire; empty beyond the last code.
absl::string_view OperationName(int code) {
  if (code < kCollectiveOpCount) return CollectiveOpName(static_cast<CollectiveOp>(code));
  constexpr absl::string_view kOthers[] = {kRegisterMemoryOperation, kPlayOperation};
  const auto other = static_cast<size_t>(code - kCollectiveOpCount);
  return other < std::size(kOthers) ? kOthers[other] : "";
}

template <typename T>
uint32_t Encode(const std::optional<T>& value) {
  return value.has_value() ? static_cast<uint32_t>(*value) + 1 : kNone;
}

}  // namespace

WireWriter StatusMessage(MessageType type, const absl::Status& status) {
  // Frames have a limit, so a long message is cut.
  return Message(type)
      .U8(static_cast<uint8_t>(status.code()))
      .String(status.message().substr(0, 1 << 16));
}

absl::Status ReadStatus(WireReader& reader) {
  const uint8_t code = reader.U8();
  const std::string message = reader.String();
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

void WriteCall(const CollectiveCall& call, WireWriter& writer) {
  uint8_t op = 0;
  while (!OperationName(op).empty() && OperationName(op) != call.operation) ++op;
  WireWriter bytes;
  bytes.U8(op)
      .U64(call.index)
      .U64(static_cast<uint64_t>(call.count))
      .U32(Encode(call.dtype))
      .U32(Encode(call.reduce))
      .U32(Encode(call.root))
      .String(absl::string_view(call.label).substr(0, 1 << 16));
  writer.String(bytes.bytes());
}

std::optional<CollectiveCall> ReadCall(absl::string_view bytes) {
  WireReader reader(bytes);
  const uint8_t op = reader.U8();
  CollectiveCall call;
  call.index = reader.U64();
  call.count = static_cast<int64_t>(reader.U64());
  const uint32_t dtype = reader.U32();
  const uint32_t reduce = reader.U32();
  const uint32_t root = reader.U32();
  call.label = reader.String();
  call.operation = OperationName(op);
  if (!reader.IsComplete() || call.operation.empty() || dtype > kDTypeCount ||
      reduce > kReduceOpCount) {
    return std::nullopt;
  }
  if (dtype != kNone) call.dtype = static_cast<DType>(dtype - 1);
  if (reduce != kNone) call.reduce = static_cast<ReduceOp>(reduce - 1);
  if (root != kNone) call.root = static_cast<int>(root - 1);
  return call;
}

void WriteRanks(absl::Span<const int> ranks, WireWriter& writer) {
  writer.U32(static_cast<uint32_t>(ranks.size()));
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = std::min(begin + 2, ranks.size());
    const int step = ranks[end - 1] - ranks[begin];
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    writer.I32(ranks[begin]).I32(step).U32(static_cast<uint32_t>(end - begin));
    begin = end;
  }
}

std::vector<int> ReadRanks(WireReader& reader, int most) {
  const size_t size = reader.U32();
  std::vector<int> ranks;
  while (reader.ok() && ranks.size() < size) {
    const int64_t first = reader.I32();
    const int64_t step = reader.I32();
    const size_t count = reader.U32();
    if (count == 0 || count > size - ranks.size() || size > static_cast<size_t>(most)) {
      reader.Fail();
      break;
    }
    for (size_t i = 0; i < count; ++i) {
      ranks.push_back(static_cast<int>(first + step * static_cast<int64_t>(i)));
    }
  }
  return ranks;
}

std::vector<std::string> MeetingAnswer::Messages(uint32_t group,
                                                 absl::Span<const std::string> values) {
  constexpr size_t kPartBytes = 1 << 16;
  const auto begin_part = [&] {
    return Message(MessageType::kMet).U32(group).U32(static_cast<uint32_t>(values.size()));
  };
  std::vector<std::string> messages;
  std::map<absl::string_view, size_t> numbers;
  WireWriter part = begin_part();
  for (size_t begin = 0; begin < values.size();) {
    size_t end = begin + 1;
    while (end < values.size() && values[end] == values[begin]) ++end;
    if (part.bytes().size() > kPartBytes) {
      messages.push_back(part.bytes());
      part = begin_part();
    }
    const auto [found, is_new] = numbers.emplace(values[begin], numbers.size());
    part.U32(static_cast<uint32_t>(end - begin)).U32(static_cast<uint32_t>(found->second));
    if (is_new) part.String(values[begin]);
    begin = end;
  }
  messages.push_back(part.bytes());
  return messages;
}

bool MeetingAnswer::Add(WireReader& reader, int most) {
  const size_t size = reader.U32();
  if (size == 0 || size > static_cast<size_t>(most) || (size_ != 0 && size != size_)) return false;
  size_ = size;
  while (reader.ok() && !reader.AtEnd()) {
    const size_t count = reader.U32();
    const size_t number = reader.U32();
    if (number == distinct_.size()) distinct_.push_back(reader.String());
    if (!reader.ok() || number >= distinct_.size() || count > size_ - values_.size()) return false;
    values_.insert(values_.end(), count, distinct_[number]);
  }
  return reader.ok();
}

}  // namespace zeroth
