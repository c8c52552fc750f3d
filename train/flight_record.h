// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a rank leaves when communication has failed: the calls that it made last, and, from all
// ranks' together, who waited for whom.

#ifndef ZEROTH_TRAIN_FLIGHT_RECORD_H_
#define ZEROTH_TRAIN_FLIGHT_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// In a run's directory.
inline constexpr char kFlightDirectory[] = "flight_recorder";
// In that: what a person reads.
inline constexpr char kWhoWaitedFile[] = "who_waited.txt";

// Writes `directory`/flight_recorder/rank-N.json, the latest calls of `communicators`, which all
// ranks have in one order, and who_waited.txt from the records of all ranks that are there; waits
// up to `patience` for the others' first, since whoever returns may have them killed. `error` is
// what this rank ends with.
absl::Status WriteFlightRecord(const std::string& directory, const Communicator& world,
                               absl::Span<Communicator* const> communicators,
                               const absl::Status& error, absl::Duration patience);

// who_waited.txt from such records, of a world of `world_size` ranks.
std::string WhoWaited(const std::vector<nlohmann::json>& records, int world_size);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLIGHT_RECORD_H_
