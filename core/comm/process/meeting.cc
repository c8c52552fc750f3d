// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/handshake.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/rendezvous_file.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstPause = std::chrono::milliseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(300);
constexpr int kPollMs = 100;
// The timeout of one attempt to connect, and of the answer to Hello. The coordinator's limit for a
// handshake is as long.
constexpr absl::Duration kAttemptTime = absl::Seconds(10);
// The coordinator has the same timeout, and its error says more, so it gets this much longer.
constexpr absl::Duration kCoordinatorsTurn = absl::Seconds(10);

using Exchanges = Registry<AddressExchangeRegistration, AddressExchange>;
constexpr char kLauncher[] = "launcher";  // the only name in the registry

Clock::time_point After(absl::Duration time) { return Clock::now() + OnClock(time); }

bool OthersElsewhere(const ProcessEnvironment& environment) {
  return environment.world_size > 1 && environment.local_world_size != environment.world_size;
}

// Returns the name under which other nodes find this one; loopback if all ranks are on this node.
std::string OwnHost(const ProcessEnvironment& environment) {
  char name[HOST_NAME_MAX + 1] = {};
  if (!OthersElsewhere(environment) || gethostname(name, sizeof(name) - 1) != 0) return "127.0.0.1";
  return name;
}

// The result of one attempt to join, and whether another attempt may succeed.
struct Attempt {
  absl::Status status;
  bool again = false;
};

class Joining {
 public:
  Joining(const ProcessEnvironment& environment, const LaunchOptions& options,
          absl::string_view back_end)
      : environment_(environment), options_(options), back_end_(back_end) {}
  // However the attempts ended, no rank needs the file any more.
  ~Joining() {
    if (own_.has_value() && !environment_.rendezvous_file.empty()) {
      RemoveRendezvousFile(environment_.rendezvous_file, *own_);
    }
  }

  absl::StatusOr<Meeting> Run() {
    ZEROTH_RETURN_IF_ERROR(FindPlace());
    const Clock::time_point deadline = After(options_.timeout);
    auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(kFirstPause);
    for (;;) {
      const Attempt attempt = Try();
      if (attempt.status.ok()) return std::move(meeting_);
      if (!attempt.again) return attempt.status;
      if (Clock::now() + pause >= deadline) {
        return absl::DeadlineExceededError(absl::StrCat(
            "timeout after ", absl::FormatDuration(options_.timeout),
            " on the way to rank 0: ", attempt.status.message(),
            "; is rank 0 started, and do MASTER_ADDR and MASTER_PORT (or ZEROTH_RENDEZVOUS_FILE) "
            "say where?"));
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(kLongestPause));
    }
  }

 private:
  bool is_rank_0() const { return environment_.rank == 0; }
  // True if rank 0 chooses the address and the job's key, and tells the other ranks.
  bool RankZeroChooses() const {
    return !environment_.rendezvous_file.empty() || environment_.address_by_launcher ||
           environment_.master_port == 0;
  }

  absl::Status StartCoordinator() {
    Coordinator::Options options;
    options.world_size = environment_.world_size;
    options.timeout = options_.timeout;
    options.back_end = back_end_;
    options.others_elsewhere = OthersElsewhere(environment_);
    if (RankZeroChooses()) {
      ZEROTH_ASSIGN_OR_RETURN(place_.key, JobKey::New());
      options.host = OwnHost(environment_);
    } else {
      options.host = environment_.master_addr;
      options.port = environment_.master_port;
    }
    options.key = KeyOf(place_);
    ZEROTH_ASSIGN_OR_RETURN(meeting_.coordinator, Coordinator::Start(options));
    place_.host = options.host;
    place_.port = meeting_.coordinator->port();
    own_ = place_;
    if (!environment_.rendezvous_file.empty()) {
      ZEROTH_RETURN_IF_ERROR(WriteRendezvousFile(environment_.rendezvous_file, place_));
    }
    place_.host = meeting_.coordinator->address();
    return absl::OkStatus();
  }

  // Adds the user's secret, which rank 0 does not write to the rendezvous file or send by MPI.
  JobKey KeyOf(const MeetingPlace& place) const {
    return {place.key.id, absl::StrCat(environment_.job_secret, place.key.secret)};
  }

  // Starts the coordinator in rank 0, and finds its address on the other ranks, except where they
  // read it from the rendezvous file (see Try).
  absl::Status FindPlace() {
    place_.host = environment_.master_addr;
    place_.port = environment_.master_port;
    if (!RankZeroChooses()) place_.key.id = environment_.job_id;
    const absl::Status started = is_rank_0() ? StartCoordinator() : absl::OkStatus();
    if (!environment_.address_by_launcher) return started;

    absl::StatusOr<std::string> own = "";
    if (!started.ok()) {
      own = started;
    } else if (own_.has_value()) {
      own = own_->ToText();
    }
    const AddressExchange exchange = Exchanges::Global().Find(kLauncher).value_or(nullptr);
    const absl::StatusOr<std::string> address =
        exchange != nullptr ? exchange(environment_, own, options_)
                            : absl::UnimplementedError("this program does not know MPI");
    if (!address.ok()) {
      return Annotate(address.status(),
                      "MPI is asked for the address of rank 0 (MASTER_ADDR on all ranks, or "
                      "ZEROTH_RENDEZVOUS_FILE, would say it instead)");
    }
    if (is_rank_0()) return absl::OkStatus();
    std::optional<MeetingPlace> told = MeetingPlace::Parse(*address);
    if (!told.has_value()) {
      return absl::UnavailableError(
          absl::StrCat("rank 0 sent an invalid address: '", *address, "'"));
    }
    place_ = *std::move(told);
    return absl::OkStatus();
  }

  Attempt Try() {
    if (!is_rank_0() && !environment_.rendezvous_file.empty()) {
      const auto found = ReadRendezvousFile(environment_.rendezvous_file);
      if (!found.ok()) return {found.status()};
      if (!found->has_value()) {
        return {absl::UnavailableError(absl::StrCat("rank 0 has left no address in '",
                                                    environment_.rendezvous_file, "' yet")),
                /*again=*/true};
      }
      place_ = **found;
    }
    meeting_.place = PlaceName(place_.host, place_.port);
    absl::StatusOr<Socket> socket =
        Connect(place_.host, place_.port, std::min(kAttemptTime, options_.timeout));
    if (!socket.ok()) return {socket.status(), /*again=*/true};
    meeting_.socket = *std::move(socket);
    meeting_.frames = FrameReader();
    return Shake();
  }

  // Returns the next message. DeadlineExceeded if none has arrived by `deadline`, Unavailable if
  // the connection is lost, InvalidArgument for bytes that are not a message.
  absl::StatusOr<std::string> Receive(Clock::time_point deadline) {
    for (;;) {
      ZEROTH_ASSIGN_OR_RETURN(const auto frame, meeting_.frames.Next());
      if (frame.has_value()) return std::string(*frame);
      if (Clock::now() >= deadline) return absl::DeadlineExceededError("nobody answers");
      ZEROTH_ASSIGN_OR_RETURN(const std::string bytes, ReceiveSome(meeting_.socket, kPollMs));
      meeting_.frames.Append(bytes);
    }
  }

  absl::Status Send(const std::string& message) { return SendAll(meeting_.socket, Frame(message)); }

  Attempt Shake() {
    absl::StatusOr<std::string> nonce = NewNonce();
    if (!nonce.ok()) return {nonce.status()};
    const RankHandshake handshake(KeyOf(place_), *std::move(nonce));
    // If sending fails, so does receiving the answer, which reports the error.
    static_cast<void>(Send(handshake.Hello()));
    // Three messages have to arrive: the challenge, the answer to this rank's proof, the welcome.
    bool joined = false;
    for (bool proven = false;;) {
      const absl::StatusOr<std::string> answer =
          Receive(After(joined ? options_.timeout + kCoordinatorsTurn
                               : std::min(kAttemptTime, options_.timeout)));
      if (!answer.ok() && !absl::IsInvalidArgument(answer.status())) {
        return joined ? NoWelcome(answer.status()) : NoAnswer(answer.status());
      }
      WireReader reader(answer.ok() ? absl::string_view(*answer) : absl::string_view());
      switch (static_cast<MessageType>(reader.U8())) {
        case MessageType::kRefused: {
          const absl::Status refusal = ReadStatus(reader);
          if (!reader.IsComplete() || refusal.ok()) break;
          if (proven) return {refusal};
          // It may be rank 0 of another job, with another version, which ends soon.
          return {absl::UnavailableError(absl::StrCat(
                      "what listens at ", meeting_.place,
                      " turns this rank away, and has not shown that it is of this job: ",
                      absl::Utf8SafeCHexEscape(refusal.message().substr(0, 512)))),
                  /*again=*/true};
        }
        case MessageType::kAnotherJob:
          return {
              absl::UnavailableError(absl::StrCat(
                  "at ", meeting_.place, " rank 0 of another job listens",
                  place_.key.id.empty() ? "" : absl::StrCat(" (this one is '", place_.key.id, "')"),
                  "; two jobs on one node need different ports (MASTER_PORT)")),
              /*again=*/true};
        case MessageType::kChallenge: {
          if (proven) break;
          const absl::StatusOr<std::string> join =
              handshake.Join(*answer, {environment_.world_size, environment_.rank, back_end_});
          if (absl::IsUnauthenticated(join.status())) return {OtherSecret()};
          if (!join.ok()) break;
          proven = true;
          static_cast<void>(Send(*join));
          continue;
        }
        case MessageType::kJoined:
          if (!proven || joined) break;
          joined = true;
          continue;
        case MessageType::kWelcome:
          if (!joined) break;
          return {absl::OkStatus()};
        default:
          break;
      }
      return {absl::UnavailableError(absl::StrCat(
          "what listens at ", meeting_.place,
          " is another program; set MASTER_PORT to an unused port, the same on all ranks"))};
    }
  }

  absl::Status OtherSecret() const {
    return absl::UnauthenticatedError(absl::StrCat(
        "what listens at ", meeting_.place,
        " does not know this job's secret; give all ranks the same ZEROTH_JOB_SECRET, and two jobs "
        "on one node different ports (MASTER_PORT)"));
  }

  // Rank 0 may have ended, or was too busy with other connections. The rank tries again.
  Attempt NoAnswer(const absl::Status& error) const {
    return {absl::UnavailableError(
                absl::IsDeadlineExceeded(error)
                    ? absl::StrCat(meeting_.place,
                                   " is open, but nobody answers; is it rank 0 of this job?")
                    : absl::StrCat(error.message(), " at ", meeting_.place,
                                   " before this rank had joined: rank 0 has ended, or another "
                                   "program listens there")),
            /*again=*/true};
  }

  Attempt NoWelcome(const absl::Status& error) const {
    if (absl::IsDeadlineExceeded(error)) {
      return {absl::DeadlineExceededError(
          absl::StrCat("timeout after ", absl::FormatDuration(options_.timeout), ": rank 0 at ",
                       meeting_.place, " no longer answers; has its machine failed?"))};
    }
    return {absl::UnavailableError(absl::StrCat(error.message(), " at ", meeting_.place,
                                                " before all ranks were there: rank 0 has ended"))};
  }

  const ProcessEnvironment& environment_;
  const LaunchOptions& options_;
  const std::string back_end_;
  MeetingPlace place_;               // where this rank connects to
  std::optional<MeetingPlace> own_;  // in rank 0: where other ranks connect to
  Meeting meeting_;
};

}  // namespace

absl::StatusOr<Meeting> MeetAllRanks(const ProcessEnvironment& environment,
                                     const LaunchOptions& options, absl::string_view back_end) {
  Joining joining(environment, options, back_end);
  return joining.Run();
}

AddressExchangeRegistration::AddressExchangeRegistration(AddressExchange exchange) {
  Exchanges::Global().Add(kLauncher, std::move(exchange));
}

}  // namespace zeroth
