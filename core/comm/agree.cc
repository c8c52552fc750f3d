// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/agree.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

absl::StatusOr<int32_t> Max(Communicator& world, Device& device, int32_t value,
                            absl::string_view label) {
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor shared,
      Tensor::FromHost<int32_t>(device, Shape({1}), absl::MakeConstSpan(&value, 1),
                                MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(world.AllReduce(shared, ReduceOp::kMax, device.compute_stream(), label));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> values, shared.ToHost<int32_t>());
  return values[0];
}

}  // namespace

absl::StatusOr<std::string> BroadcastText(Communicator& world, Device& device, int root,
                                          const std::string& text, absl::string_view label) {
  if (world.size() == 1) return text;
  const bool mine = world.rank() == root;
  const bool too_long = mine && text.size() > kMaxTextBytes;
  ZEROTH_ASSIGN_OR_RETURN(
      const int32_t size,
      Max(world, device, mine ? (too_long ? -1 : static_cast<int32_t>(text.size())) : -1, label));
  if (size < 0) {
    return InvalidArgument(label, ": the text is longer than ", kMaxTextBytes, " bytes");
  }
  if (size == 0) return std::string();
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  if (mine) bytes.assign(text.begin(), text.end());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor shared,
      Tensor::FromHost<uint8_t>(device, Shape({size}), bytes, MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(world.Broadcast(shared, root, device.compute_stream(), label));
  ZEROTH_ASSIGN_OR_RETURN(bytes, shared.ToHost<uint8_t>());
  return std::string(bytes.begin(), bytes.end());
}

absl::Status AgreeOnStatus(Communicator& world, Device& device, const absl::Status& mine,
                           absl::string_view label) {
  if (world.size() == 1) return mine;
  ZEROTH_ASSIGN_OR_RETURN(const int32_t most,
                          Max(world, device, mine.ok() ? 0 : world.size() - world.rank(), label));
  if (most == 0) return absl::OkStatus();
  const int root = world.size() - most;
  // The code and the message as one text.
  const std::string text = absl::StrCat(static_cast<int>(mine.code()), " ", mine.message());
  ZEROTH_ASSIGN_OR_RETURN(const std::string error, BroadcastText(world, device, root, text, label));
  int code = 0;
  size_t at = 0;
  for (; at < error.size() && error[at] != ' '; ++at) code = code * 10 + (error[at] - '0');
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("rank ", root, ": ", error.substr(at + 1)));
}

}  // namespace zeroth
