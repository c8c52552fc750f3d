// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_channel.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/ranks_text.h"

namespace zeroth::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookAround = std::chrono::milliseconds(20);
// Living ranks finish a call that they agreed on well within this time.
constexpr auto kGrace = std::chrono::seconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<Channel>> Channel::Create(std::shared_ptr<ProcessWorld> processes,
                                                         Engine& engine, ProcessWorld::Seat seat) {
  if (seat.group > static_cast<uint32_t>(engine.greatest_tag() - kFirstGroupTag)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "group ", seat.group, " exceeds the tags of ", engine.description(), " (at most ",
        engine.greatest_tag(), "); reuse communicators instead of splitting again"));
  }
  return std::shared_ptr<Channel>(new Channel(std::move(processes), engine, std::move(seat)));
}

Channel::Channel(std::shared_ptr<ProcessWorld> processes, Engine& engine, ProcessWorld::Seat seat)
    : processes_(std::move(processes)),
      engine_(engine),
      seat_(std::move(seat)),
      name_(processes_->NameOf(seat_)),
      per_node_(processes_->RanksPerNodeOf(seat_)) {}

Channel::~Channel() { processes_->Leave(seat_.group); }

absl::Status Channel::Agree(std::vector<CollectiveCall> calls) {
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t number,
                          processes_->PostAll(seat_.group, std::move(calls), /*awaits=*/true));
  return processes_->AwaitAgreed(seat_.group, number);
}

std::shared_ptr<Engine::Exchange> Channel::Start(absl::Span<const RankMessage> messages) {
  std::vector<Message> in_world;
  for (const RankMessage& message : messages) {
    in_world.push_back({message.is_send ? Message::Direction::kSend : Message::Direction::kReceive,
                        seat_.world_ranks[static_cast<size_t>(message.peer)], message.data.data,
                        ByteSize(message.data)});
  }
  return engine_.Start(kFirstGroupTag + static_cast<int>(seat_.group), in_world);
}

absl::Status Channel::Finish(Engine::Exchange& exchange, const CollectiveCall& call) {
  const Clock::time_point start = Clock::now();
  std::optional<Clock::time_point> broken_since;
  while (!engine_.WaitFor(exchange, kLookAround)) {
    const Clock::time_point now = Clock::now();
    if (const absl::Status broken = processes_->status(); !broken.ok()) {
      if (!broken_since.has_value()) broken_since = now;
      if (now - *broken_since > kGrace) engine_.Abandon(broken);
    } else if (absl::FromChrono(now - start - kGrace) > processes_->timeout()) {
      const std::vector<int> peers = engine_.UnfinishedPeers(exchange);
      processes_->Break(absl::DeadlineExceededError(absl::StrCat(
          processes_->Failed(), ": timeout after ", absl::FormatDuration(processes_->timeout()),
          " in ", call.ToString(), " on ", name_, ": all ranks have called it, and its messages ",
          peers.empty() ? "" : absl::StrCat("from or to ", RanksText(peers), " "),
          "do not arrive; see whether the network or another rank's machine has failed")));
    }
  }
  const absl::Status moved = engine_.StatusOf(exchange);
  if (moved.ok()) return absl::OkStatus();
  if (processes_->status().ok()) {
    processes_->Break(
        Annotate(moved, absl::StrCat(processes_->Failed(), ": ", call.ToString(), " on ", name_)));
  }
  return processes_->StatusAfterHooks();
}

absl::StatusOr<char*> Channel::Scratch(size_t bytes, Stream& stream) {
  if (bytes == 0) return nullptr;
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    scratch_.reset();
    ZEROTH_ASSIGN_OR_RETURN(
        scratch_, stream.device().allocator().Allocate(bytes, MemoryCategory::kCommunication));
  }
  return static_cast<char*>(scratch_->data());
}

}  // namespace zeroth::mpi
