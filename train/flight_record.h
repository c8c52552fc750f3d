// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The record that each rank writes after communication has failed: its latest calls. The records of
// all ranks show which rank waited for which.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The directory of the records, inside a run's directory.
inline constexpr char kFlightDirectory[] = "flight_recorder";
// The directory of the records of the previous start.
inline constexpr char kEarlierFlightDirectory[] = "flight_recorder_earlier";
// The summary for people, in the directory of records.
inline constexpr char kWhoWaitedFile[] = "who_waited.txt";

// Renames the records that an earlier start left in `directory`, so that they are not mistaken for
// those of this one.
absl::Status SetFlightRecordAside(const std::string& directory);

// Writes `directory`/flight_recorder/rank-N.json with the latest calls of `communicators`, which
// all ranks have in the same order, and who_waited.txt from all records that exist. Waits up to
// `patience` for the records of other ranks, because the launcher may kill them as soon as one rank
// returns. `error` is the error that ends this rank.
absl::Status WriteFlightRecord(const std::string& directory, const Communicator& world,
                               absl::Span<Communicator* const> communicators,
                               const absl::Status& error, absl::Duration patience);

// Returns the text of who_waited.txt for these records of a world of `world_size` ranks.
std::string WaitingRanksText(const std::vector<nlohmann::json>& records, int world_size);

}  // namespace zeroth
