// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_world.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/process/node.h"

namespace zeroth {
namespace {

constexpr int kPollMs = 100;

}  // namespace

ProcessWorld::ProcessWorld(const ProcessEnvironment& environment, const LaunchOptions& options,
                           absl::string_view back_end, Meeting meeting, Socket stop)
    : environment_(environment),
      options_(options),
      back_end_(back_end),
      meeting_(std::move(meeting)),
      stop_(std::move(stop)) {}

absl::StatusOr<std::unique_ptr<ProcessWorld>> ProcessWorld::Join(
    const ProcessEnvironment& environment, const LaunchOptions& options,
    absl::string_view back_end) {
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", std::strerror(errno)));
  }
  const std::string who = absl::StrCat("rank ", environment.rank, " of ", environment.world_size,
                                       " (", environment.launcher, ")");
  absl::StatusOr<Meeting> meeting = MeetAllRanks(environment, options, back_end);
  ZEROTH_RETURN_IF_ERROR_WITH(meeting.status(), who);
  std::unique_ptr<ProcessWorld> world(
      new ProcessWorld(environment, options, back_end, *std::move(meeting), std::move(stop)));
  absl::StatusOr<std::thread> reader =
      StartThread("messages of the coordinator", [reads = world.get()] { reads->Read(); });
  ZEROTH_RETURN_IF_ERROR_WITH(reader.status(), who);
  world->reader_ = *std::move(reader);
  return world;
}

ProcessWorld::~ProcessWorld() {
  static_cast<void>(eventfd_write(stop_.descriptor(), 1));
  if (reader_.joinable()) reader_.join();
  // Destroys the function, and the transport that it may own, while the watchdog can still end
  // a process whose transport hangs.
  std::function<std::string()> unfinished;
  std::lock_guard<std::mutex> lock(mutex_);
  unfinished.swap(unfinished_);
}

ProcessWorld::Seat ProcessWorld::WorldSeat() const {
  Seat seat;
  seat.group = kWorldGroup;
  seat.rank = rank();
  seat.world_ranks.resize(static_cast<size_t>(size()));
  std::iota(seat.world_ranks.begin(), seat.world_ranks.end(), 0);
  return seat;
}

std::string ProcessWorld::NameOf(const Seat& seat) const {
  return GroupName(back_end_, seat.world_ranks);
}

void ProcessWorld::Read() {
  absl::Status received;
  // The connection to a stopped process stays open, so after half of the timeout without a message
  // this sends a ping.
  bool asked = false;
  for (;;) {
    // The first messages may have arrived together with the welcome.
    bool understood = received.ok();
    while (understood) {
      const absl::StatusOr<std::optional<absl::string_view>> frame = meeting_.frames.Next();
      if (frame.ok() && !frame->has_value()) break;
      understood = frame.ok() && Handle(**frame);
    }
    if (understood) {
      pollfd waits[] = {{stop_.descriptor(), POLLIN, 0}, {meeting_.socket.descriptor(), POLLIN, 0}};
      // The timeout may be infinite.
      const int64_t half = std::min<int64_t>(absl::ToInt64Milliseconds(timeout() / 2), INT_MAX / 2);
      const auto ms = static_cast<int>(std::max<int64_t>(half, 1)) + (asked ? kPingGraceMs : 0);
      const int events = poll(waits, 2, ms);
      if (events < 0) continue;
      if (waits[0].revents != 0) return;
      if (events == 0 && asked) received = absl::UnavailableError("no answer, it may be stopped");
      if (events == 0 && !asked) static_cast<void>(Send(Message(MessageType::kPing)));
      asked = events == 0;
      if (asked) continue;
      const absl::StatusOr<std::string> bytes = ReceiveSome(meeting_.socket, kPollMs);
      received = bytes.status();
      if (bytes.ok()) meeting_.frames.Append(*bytes);
      continue;
    }
    Broken(absl::UnavailableError(absl::StrCat(
        "lost the connection to rank 0's process at ", meeting_.place, " (",
        received.ok() ? "it sent a malformed message" : std::string(received.message()),
        "): it has ended or cannot be reached")));
    std::lock_guard<std::mutex> lock(mutex_);
    connection_lost_ = true;
    changed_.notify_all();
    return;
  }
}

bool ProcessWorld::Handle(absl::string_view frame) {
  WireReader reader(frame);
  const auto type = static_cast<MessageType>(reader.U8());
  if (type == MessageType::kBroken) {
    const absl::Status reason = ReadStatus(reader);
    if (!reader.IsComplete() || reason.ok()) return false;
    Broken(reason);
    return true;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  switch (type) {
    case MessageType::kAgreed: {
      const uint32_t group = reader.U32();
      calls_[group].agreed = reader.U64();
      break;
    }
    case MessageType::kSeat: {
      const uint32_t asked = reader.U32();
      Seat seat;
      seat.group = reader.U32();
      if (seat.group != kNoGroup) {
        seat.rank = static_cast<int>(reader.U32());
        seat.world_ranks = ReadRanks(reader, size());
      }
      seats_[asked] = std::move(seat);
      break;
    }
    case MessageType::kMet: {
      const uint32_t group = reader.U32();
      MeetingAnswer& answer = meeting_parts_[group];
      if (!answer.Add(reader, size())) return false;
      if (!answer.IsComplete()) break;
      met_[group] = answer.TakeValues();
      meeting_parts_.erase(group);
      break;
    }
    case MessageType::kPong:
      break;
    case MessageType::kAllReturned: {
      const absl::Status status = ReadStatus(reader);
      // A truncated status would be read as OK.
      if (!reader.IsComplete()) return false;
      all_returned_ = SharedError(status);
      break;
    }
    default:
      return false;
  }
  changed_.notify_all();
  return reader.IsComplete();
}

void ProcessWorld::Broken(const absl::Status& reason) {
  std::vector<std::function<void()>> stops;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Once all ranks have returned, rank 0 closes the connections, and nothing is left to break.
    if (broken_.has_value() || all_returned_.has_value()) return;
    broken_ = SharedError(reason);
    stops = std::exchange(on_break_, {});
  }
  watchdog_ = std::make_unique<HangWatchdog>(ends_stuck_process(),
                                             [this, reason] { return DescribeHang(reason); });
  for (const std::function<void()>& stop : stops) stop();
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::string ProcessWorld::DescribeHang(const absl::Status& reason) {
  std::string text = absl::StrCat("rank ", rank(), ": ", reason.ToString(), "; ",
                                  absl::FormatDuration(HangWatchdog::kTime), " later ");
  std::string unfinished;
  std::string last;
  {
    // No thread holds the mutex for long, and none that hangs holds it.
    std::lock_guard<std::mutex> lock(mutex_);
    if (unfinished_ != nullptr) unfinished = unfinished_();
    if (last_posted_.has_value()) {
      last = absl::StrCat("; its last call was ", last_posted_->ToString());
    }
    if (!stopped_) {
      absl::StrAppend(&text, "what moves the data has not been stopped");
    } else if (has_returned_) {
      absl::StrAppend(&text, all_returned_.has_value()
                                 ? "what this rank holds of it has not been freed"
                                 : "this rank still waits for others to return");
    } else {
      absl::StrAppend(&text, "this rank's own work has not returned");
    }
  }
  absl::StrAppend(&text, last);
  if (!unfinished.empty()) {
    absl::StrAppend(&text, "; unfinished: ", unfinished);
  }
  return text;
}

void ProcessWorld::NameUnfinished(std::function<std::string()> unfinished) {
  std::lock_guard<std::mutex> lock(mutex_);
  unfinished_ = std::move(unfinished);
}

void ProcessWorld::OnBreak(std::function<void()> stop) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.has_value()) {
      on_break_.push_back(std::move(stop));
      return;
    }
  }
  stop();
}

absl::Status ProcessWorld::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_.has_value() && stopped_ ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status ProcessWorld::StatusAfterHooks() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !broken_.has_value() || stopped_; });
  return broken_.has_value() ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status ProcessWorld::StatusBeforeHooks() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_.has_value() ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status ProcessWorld::Send(const WireWriter& message) {
  std::lock_guard<std::mutex> lock(send_mutex_);
  return SendAll(meeting_.socket, Frame(message.bytes()));
}

// Callers ignore errors of Send: if it fails, the connection is lost, and the reading thread finds
// that out too.
template <typename Predicate>
absl::Status ProcessWorld::Await(std::unique_lock<std::mutex>& lock, Predicate done) {
  changed_.wait(lock, [&] { return done() || stopped_ || connection_lost_; });
  if (done()) return absl::OkStatus();
  if (broken_.has_value()) return broken_->ToStatus();
  return absl::UnavailableError("all ranks have returned, and rank 0 answers no more");
}

void ProcessWorld::Break(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  static_cast<void>(Send(StatusMessage(MessageType::kBreak, reason)));
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || all_returned_.has_value(); });
}

std::string ProcessWorld::Failed() const { return absl::StrCat("rank ", rank(), " failed"); }

absl::Status ProcessWorld::Fail(const absl::Status& error, absl::string_view what) {
  if (absl::Status broken = StatusAfterHooks(); !broken.ok()) return broken;
  const absl::Status annotated = Annotate(error, absl::StrCat(Failed(), ": ", what));
  Break(annotated);
  // The coordinator may have heard of another rank's error first. This rank's error is often a
  // consequence of it, such as NCCL's report that a peer has gone.
  const absl::Status broken = StatusAfterHooks();
  return broken.ok() ? annotated : broken;
}

absl::StatusOr<uint64_t> ProcessWorld::PostAll(uint32_t group, std::vector<CollectiveCall> calls,
                                               bool awaits) {
  ZEROTH_CHECK(!calls.empty());
  ZEROTH_RETURN_IF_ERROR(StatusAfterHooks());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Calls& of_group = calls_[group];
    for (CollectiveCall& call : calls) call.index = of_group.posted++;
    if (awaits) of_group.asked = of_group.posted;
    last_posted_ = calls.back();
  }
  // Far below the longest frame, since a label alone may have 64 KiB.
  constexpr size_t kEnoughBytes = 1 << 16;
  for (auto call = calls.begin(); call != calls.end();) {
    WireWriter message = Message(MessageType::kCall).U32(group).U8(awaits ? 1 : 0);
    while (call != calls.end() && message.bytes().size() < kEnoughBytes) {
      WriteCall(*call++, message);
    }
    static_cast<void>(Send(message));
  }
  return calls.back().index + 1;
}

uint64_t ProcessWorld::Agreed(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(group);
  return found == calls_.end() ? 0 : found->second.agreed;
}

absl::Status ProcessWorld::AwaitAgreed(uint32_t group, uint64_t count) {
  std::unique_lock<std::mutex> lock(mutex_);
  Calls& calls = calls_[group];
  if (calls.asked != count && calls.agreed < count) {
    calls.asked = count;
    lock.unlock();
    static_cast<void>(Send(Message(MessageType::kAwait).U32(group).U64(count)));
    lock.lock();
  }
  return Await(lock, [&] { return calls.agreed >= count; });
}

template <typename T>
absl::StatusOr<T> ProcessWorld::Ask(uint32_t group, const WireWriter& question,
                                    std::map<uint32_t, T>& answers) {
  ZEROTH_RETURN_IF_ERROR(StatusAfterHooks());
  static_cast<void>(Send(question));
  std::unique_lock<std::mutex> lock(mutex_);
  ZEROTH_RETURN_IF_ERROR(Await(lock, [&] { return answers.contains(group); }));
  return std::move(answers.extract(group).mapped());
}

absl::StatusOr<ProcessWorld::Seat> ProcessWorld::Split(uint32_t group, int color, int key) {
  return Ask(group, Message(MessageType::kSplit).U32(group).I32(color).I32(key), seats_);
}

absl::StatusOr<std::vector<std::string>> ProcessWorld::Meet(uint32_t group,
                                                            absl::string_view value) {
  return Ask(group, Message(MessageType::kMeet).U32(group).String(value), met_);
}

absl::Status ProcessWorld::AnnounceNode() {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<std::string> nodes, Meet(kWorldGroup, NodeName()));
  std::lock_guard<std::mutex> lock(mutex_);
  nodes_ = std::move(nodes);
  return absl::OkStatus();
}

int ProcessWorld::RanksPerNodeOf(const Seat& seat) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (nodes_.empty()) return 1;
  std::vector<std::string> nodes;
  for (const int rank : seat.world_ranks) nodes.push_back(nodes_[static_cast<size_t>(rank)]);
  return RanksPerNode(nodes);
}

void ProcessWorld::Leave(uint32_t group) {
  static_cast<void>(Send(Message(MessageType::kLeave).U32(group)));
}

absl::Status ProcessWorld::Return(const absl::Status& status) {
  static_cast<void>(Send(StatusMessage(MessageType::kReturned, status)));
  std::unique_lock<std::mutex> lock(mutex_);
  has_returned_ = true;
  changed_.wait(lock, [&] { return all_returned_.has_value() || connection_lost_; });
  if (all_returned_.has_value()) return all_returned_->ToStatus();
  return status.ok() ? broken_->ToStatus() : status;
}

}  // namespace zeroth
