// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_address.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/last_resort.h"

namespace zeroth::mpi {
namespace {

// The same on all ranks: a receiver does not know the length. The first byte says what the rest is;
// zeros follow it.
using Letter = std::array<char, 1024>;
constexpr char kAddress = 'a';
constexpr char kError = 'e';

// A process may be started long after another.
constexpr absl::Duration kLeastTimeout = absl::Minutes(1);

Letter Write(const absl::StatusOr<std::string>& own) {
  const std::string text = own.ok() ? *own : std::string(own.status().message());
  Letter letter{};
  letter[0] = own.ok() ? kAddress : kError;
  std::memcpy(letter.data() + 1, text.data(), std::min(text.size(), letter.size() - 2));
  return letter;
}

absl::StatusOr<std::string> Read(const Letter& letter) {
  const std::string text(letter.data() + 1);
  if (letter[0] == kAddress) return text;
  return absl::UnavailableError(absl::StrCat("rank 0 failed: ", text));
}

}  // namespace

absl::Status CheckRanks(const Engine& engine, const ProcessEnvironment& environment) {
  if (environment.rank == engine.rank() && environment.world_size == engine.size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      environment.launcher, " has started this process as rank ", environment.rank, " of ",
      environment.world_size, ", but to ", engine.description(), " it is rank ", engine.rank(),
      " of ", engine.size(),
      ": the two do not belong together; start it by the mpirun of that MPI (under Slurm: srun "
      "--mpi=pmix, or pmi2), or set ZEROTH_MPI_LIBRARY to the library of the launcher's"));
}

absl::StatusOr<std::string> ExchangeAddress(const ProcessEnvironment& environment,
                                            const absl::StatusOr<std::string>& own,
                                            absl::Duration timeout) {
  ZEROTH_ASSIGN_OR_RETURN(Engine* const engine, Engine::Get());
  ZEROTH_RETURN_IF_ERROR(CheckRanks(*engine, environment));
  Letter letter{};
  std::vector<Message> messages;
  const auto bytes = static_cast<int64_t>(letter.size());
  if (engine->rank() == 0) {
    letter = Write(own);
    for (int peer = 1; peer < engine->size(); ++peer) {
      messages.push_back({Message::Way::kSend, peer, letter.data(), bytes});
    }
  } else {
    messages.push_back({Message::Way::kReceive, 0, letter.data(), bytes});
  }
  const absl::Duration most = std::max(timeout, kLeastTimeout);
  const auto begin = std::chrono::steady_clock::now();
  std::optional<LastResort> last_resort;
  const std::shared_ptr<Engine::Exchange> exchange = engine->Start(kAddressTag, messages);
  while (!engine->WaitFor(*exchange, std::chrono::milliseconds(100))) {
    if (absl::FromChrono(std::chrono::steady_clock::now() - begin) < most) continue;
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("timeout after ", absl::FormatDuration(most),
                     " on the way to rank 0: its address does not come by MPI; has rank 0 begun to "
                     "communicate?"));
    // A thread that does not come back from MPI cannot be abandoned either.
    if (!last_resort.has_value()) {
      last_resort.emplace([engine, late] {
        return absl::StrCat("rank ", engine->rank(), ": ", late.ToString(),
                            "; this process ends: ", engine->Unfinished());
      });
    }
    engine->Abandon(late);
  }
  ZEROTH_RETURN_IF_ERROR(engine->StatusOf(*exchange));
  engine->SetInOrder(true);
  if (engine->rank() == 0) return own;
  return Read(letter);
}

}  // namespace zeroth::mpi
