// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_world.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/address_exchange.h"
#include "zeroth/core/comm/process/rendezvous_file.h"

namespace zeroth {
namespace {

constexpr auto kRetryPause = std::chrono::milliseconds(20);
constexpr int kPollMs = 100;

// The name under which other nodes find this one; loopback if nobody else needs to.
std::string OwnHost(const ProcessEnvironment& environment) {
  char name[HOST_NAME_MAX + 1] = {};
  const bool alone = environment.local_world_size == environment.world_size;
  if (alone || gethostname(name, sizeof(name) - 1) != 0) return "127.0.0.1";
  return name;
}

bool IsLoopback(const std::string& host) { return host == "127.0.0.1" || host == "localhost"; }

// What the coordinator needs to know of this rank's environment.
Coordinator::Options CoordinatorOptions(const ProcessEnvironment& environment,
                                        const LaunchOptions& options, absl::string_view back_end) {
  Coordinator::Options result;
  result.world_size = environment.world_size;
  result.timeout = options.timeout;
  result.back_end = std::string(back_end);
  // Rank 0 chooses the address that it then tells the others.
  const bool chooses = !environment.rendezvous_file.empty() || environment.address_by_launcher;
  result.port = chooses ? 0 : environment.master_port;
  result.loopback_only = environment.world_size == 1 ||
                         IsLoopback(chooses ? OwnHost(environment) : environment.master_addr);
  return result;
}

}  // namespace

ProcessWorld::ProcessWorld(const ProcessEnvironment& environment, absl::Duration timeout,
                           absl::string_view back_end)
    : environment_(environment), timeout_(timeout), back_end_(back_end) {}

absl::StatusOr<std::unique_ptr<ProcessWorld>> ProcessWorld::Join(
    const ProcessEnvironment& environment, const LaunchOptions& options,
    absl::string_view back_end) {
  std::unique_ptr<ProcessWorld> world(new ProcessWorld(environment, options.timeout, back_end));
  world->stop_ = Socket(eventfd(0, EFD_CLOEXEC));
  if (!world->stop_.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", std::strerror(errno)));
  }
  const std::string where = absl::StrCat("rank ", environment.rank, " of ", environment.world_size,
                                         " (", environment.launcher, ")");
  auto place = world->FindRankZero(options);
  ZEROTH_RETURN_IF_ERROR_WITH(place.status(), where);
  ZEROTH_RETURN_IF_ERROR_WITH(world->Connect(place->first, place->second), where);
  ZEROTH_RETURN_IF_ERROR_WITH(world->Shake(), where);
  world->reader_ = std::thread([self = world.get()] { self->Read(); });
  return world;
}

absl::Status ProcessWorld::StartCoordinator(const LaunchOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(coordinator_,
                          Coordinator::Start(CoordinatorOptions(environment_, options, back_end_)));
  if (environment_.rendezvous_file.empty()) return absl::OkStatus();
  return WriteRendezvousFile(environment_.rendezvous_file, OwnHost(environment_),
                             coordinator_->port());
}

absl::StatusOr<std::pair<std::string, int>> ProcessWorld::FindRankZero(
    const LaunchOptions& options) {
  std::pair<std::string, int> place(environment_.master_addr, environment_.master_port);
  absl::StatusOr<std::string> own = "";
  if (rank() == 0) {
    if (absl::Status started = StartCoordinator(options); started.ok()) {
      place = {"127.0.0.1", coordinator_->port()};
      own = absl::StrCat(OwnHost(environment_), " ", coordinator_->port());
    } else {
      own = started;
    }
  }
  if (!environment_.address_by_launcher) {
    ZEROTH_RETURN_IF_ERROR(own.status());
    return place;
  }

  const AddressExchange exchange = LauncherAddressExchange();
  const absl::StatusOr<std::string> address =
      exchange != nullptr ? exchange(environment_, own, options.timeout)
                          : absl::UnimplementedError("this program does not know MPI");
  if (!address.ok()) {
    return Annotate(address.status(),
                    "MPI is asked for the address of rank 0 (MASTER_ADDR on all ranks, or "
                    "ZEROTH_RENDEZVOUS_FILE, would say it instead)");
  }
  if (rank() == 0) return place;
  const std::pair<std::string, std::string> words = absl::StrSplit(*address, ' ');
  if (!absl::SimpleAtoi(words.second, &place.second)) {
    return absl::UnavailableError(
        absl::StrCat("what rank 0 has sent as its address is none: '", *address, "'"));
  }
  place.first = words.first;
  return place;
}

// Rank 0 may be slower to start than the others.
absl::Status ProcessWorld::Connect(const std::string& host, int port) {
  const absl::Time deadline = absl::Now() + timeout_;
  const bool by_file = environment_.rank != 0 && !environment_.rendezvous_file.empty();
  absl::Status last;
  do {
    std::pair<std::string, int> place(host, port);
    if (by_file) {
      const auto found = ReadRendezvousFile(environment_.rendezvous_file);
      if (!found.has_value()) {
        last = absl::UnavailableError(
            absl::StrCat("rank 0 has left no address in '", environment_.rendezvous_file, "' yet"));
        std::this_thread::sleep_for(kRetryPause);
        continue;
      }
      place = *found;
    }
    meeting_place_ = absl::StrCat(place.first, ":", place.second);
    absl::StatusOr<Socket> socket = zeroth::Connect(place.first, place.second);
    if (socket.ok()) {
      socket_ = *std::move(socket);
      return absl::OkStatus();
    }
    last = socket.status();
    std::this_thread::sleep_for(kRetryPause);
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(absl::StrCat(
      "timeout after ", absl::FormatDuration(timeout_), " on the way to rank 0: ", last.message(),
      "; is rank 0 started, and do MASTER_ADDR and MASTER_PORT (or ZEROTH_RENDEZVOUS_FILE) say "
      "where?"));
}

absl::Status ProcessWorld::Shake() {
  WireWriter hello = Message(MessageType::kHello);
  hello.U32(kProtocolMagic).U32(kProtocolVersion);
  hello.I32(environment_.world_size).I32(environment_.rank).String(back_end_);
  ZEROTH_RETURN_IF_ERROR(Send(hello));
  // The coordinator has the same timeout, and says more when it passes: it goes first.
  const absl::Time deadline = absl::Now() + timeout_ + absl::Seconds(10);
  while (absl::Now() < deadline) {
    const absl::StatusOr<std::string> bytes = ReceiveSome(socket_, kPollMs);
    if (!bytes.ok()) {
      return absl::UnavailableError(absl::StrCat(
          bytes.status().message(), " at ", meeting_place_,
          " before all ranks were there: rank 0 has ended, or another program listens there"));
    }
    frames_.Append(*bytes);
    const absl::StatusOr<std::optional<std::string>> frame = frames_.Next();
    if (frame.ok() && !frame->has_value()) continue;
    if (frame.ok()) {
      WireReader reader(**frame);
      const auto type = static_cast<MessageType>(reader.U8());
      if (type == MessageType::kWelcome) return absl::OkStatus();
      if (type == MessageType::kRefused) return ReadStatus(reader);
    }
    return absl::UnavailableError(absl::StrCat("what listens at ", meeting_place_,
                                               " is another program; set MASTER_PORT to a port of "
                                               "its own, the same on all ranks"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("timeout after ", absl::FormatDuration(timeout_), ": ", meeting_place_,
                   " is open, but nobody answers; is it rank 0 of this job?"));
}

ProcessWorld::~ProcessWorld() {
  static_cast<void>(eventfd_write(stop_.descriptor(), 1));
  if (reader_.joinable()) reader_.join();
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
  return absl::StrCat(back_end_, " world ranks [", absl::StrJoin(seat.world_ranks, ", "), "]");
}

void ProcessWorld::Read() {
  absl::Status received;
  for (;;) {
    // First what came behind the welcome.
    bool understood = received.ok();
    while (understood) {
      const absl::StatusOr<std::optional<std::string>> frame = frames_.Next();
      if (frame.ok() && !frame->has_value()) break;
      understood = frame.ok() && Handle(**frame);
    }
    if (understood) {
      pollfd waits[] = {{stop_.descriptor(), POLLIN, 0}, {socket_.descriptor(), POLLIN, 0}};
      if (poll(waits, 2, -1) < 0) continue;
      if (waits[0].revents != 0) return;
      const absl::StatusOr<std::string> bytes = ReceiveSome(socket_, kPollMs);
      received = bytes.status();
      if (bytes.ok()) frames_.Append(*bytes);
      continue;
    }
    Broken(absl::UnavailableError(
        absl::StrCat("lost the connection to rank 0's process at ", meeting_place_, " (",
                     received.ok() ? "it sent what is no message" : std::string(received.message()),
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
      agreed_[group] = reader.U64();
      break;
    }
    case MessageType::kSeat: {
      Seat seat;
      seat.group = reader.U32();
      if (seat.group != kNoGroup) {
        seat.rank = static_cast<int>(reader.U32());
        const uint32_t members = reader.U32();
        for (uint32_t i = 0; i < members && reader.ok(); ++i) {
          seat.world_ranks.push_back(reader.I32());
        }
      }
      seat_ = std::move(seat);
      break;
    }
    case MessageType::kMet:
      ++met_[reader.U32()];
      break;
    case MessageType::kValue: {
      const std::string key = reader.String();
      values_[key] = reader.String();
      break;
    }
    case MessageType::kAllReturned: {
      const absl::Status status = ReadStatus(reader);
      all_returned_ = Failure{status.code(), std::string(status.message())};
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
    if (broken_.has_value()) return;
    broken_ = Failure{reason.code(), std::string(reason.message())};
    stops = std::exchange(on_break_, {});
  }
  for (const std::function<void()>& stop : stops) stop();
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
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

absl::Status ProcessWorld::SettledStatus() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !broken_.has_value() || stopped_; });
  return broken_.has_value() ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status ProcessWorld::UnsettledStatus() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_.has_value() ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status ProcessWorld::Send(const WireWriter& message) {
  std::lock_guard<std::mutex> lock(send_mutex_);
  return SendAll(socket_, Frame(message.bytes()));
}

// A message that cannot be sent means a lost connection, of which the reading thread learns too.
template <typename Predicate>
absl::Status ProcessWorld::Await(Predicate done) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return done() || stopped_; });
  return done() ? absl::OkStatus() : broken_->ToStatus();
}

void ProcessWorld::Break(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  WireWriter message = Message(MessageType::kBreak);
  WriteStatus(reason, message);
  static_cast<void>(Send(message));
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || all_returned_.has_value(); });
}

absl::StatusOr<uint64_t> ProcessWorld::Post(uint32_t group, CollectiveCall call) {
  ZEROTH_RETURN_IF_ERROR(SettledStatus());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    call.index = posted_[group]++;
  }
  WireWriter message = Message(MessageType::kCall).U32(group);
  WriteCall(call, message);
  static_cast<void>(Send(message));
  return call.index + 1;
}

uint64_t ProcessWorld::Agreed(uint32_t group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = agreed_.find(group);
  return found == agreed_.end() ? 0 : found->second;
}

absl::Status ProcessWorld::AwaitAgreed(uint32_t group, uint64_t count) {
  return Await([&] { return agreed_[group] >= count; });
}

absl::StatusOr<ProcessWorld::Seat> ProcessWorld::Split(uint32_t group, int color, int key) {
  ZEROTH_RETURN_IF_ERROR(SettledStatus());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    seat_.reset();
  }
  static_cast<void>(Send(Message(MessageType::kSplit).U32(group).I32(color).I32(key)));
  ZEROTH_RETURN_IF_ERROR(Await([&] { return seat_.has_value(); }));
  std::lock_guard<std::mutex> lock(mutex_);
  return *std::exchange(seat_, std::nullopt);
}

absl::Status ProcessWorld::Meet(uint32_t group) {
  uint64_t before = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = met_[group];
  }
  static_cast<void>(Send(Message(MessageType::kMeet).U32(group)));
  return Await([&] { return met_[group] > before; });
}

void ProcessWorld::Leave(uint32_t group) {
  static_cast<void>(Send(Message(MessageType::kLeave).U32(group)));
}

absl::Status ProcessWorld::Put(absl::string_view key, absl::string_view value) {
  ZEROTH_RETURN_IF_ERROR(status());
  static_cast<void>(Send(Message(MessageType::kPut).String(key).String(value)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ProcessWorld::Get(absl::string_view key) {
  const std::string name(key);
  static_cast<void>(Send(Message(MessageType::kGet).String(name)));
  ZEROTH_RETURN_IF_ERROR(Await([&] { return values_.count(name) > 0; }));
  std::lock_guard<std::mutex> lock(mutex_);
  return values_[name];
}

absl::Status ProcessWorld::Return(const absl::Status& status) {
  WireWriter message = Message(MessageType::kReturned);
  WriteStatus(status, message);
  static_cast<void>(Send(message));
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return all_returned_.has_value() || connection_lost_; });
  if (all_returned_.has_value()) return all_returned_->ToStatus();
  return status.ok() ? broken_->ToStatus() : status;
}

}  // namespace zeroth
