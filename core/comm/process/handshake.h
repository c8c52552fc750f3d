// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The protocol by which a rank and the coordinator prove to each other that they belong to one job.
// The rank names its job (Hello). The coordinator answers with a proof that it knows the job's
// secret (Challenge). The rank says who it is, with its own proof (Join). Each proof covers a
// random number that the other side has just drawn, so that no proof can be replayed. The secret
// itself is never sent. Later messages on the connection are neither signed nor encrypted.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/process/messages.h"

namespace zeroth {

// Only ranks that have joined may send longer messages.
inline constexpr size_t kMostHandshakeBytes = 4096;

struct JobKey {
  std::string id;      // empty: the job has none
  std::string secret;  // empty: knowing the id is enough

  // Returns a random id and a random secret.
  static absl::StatusOr<JobKey> New();
  // True if the key distinguishes this job's ranks from those of other jobs.
  bool IsSet() const { return !id.empty() || !secret.empty(); }
};

// Returns random bytes that nobody can predict. Internal if the system has none.
absl::StatusOr<std::string> NewNonce();

// The identity that a rank sends.
struct RankIdentity {
  int world_size = 1;
  int rank = 0;
  std::string back_end;
};

// The rank's side. Messages are frames without their length.
class RankHandshake {
 public:
  RankHandshake(JobKey key, std::string nonce) : key_(std::move(key)), nonce_(std::move(nonce)) {}

  std::string Hello() const;
  // Returns the answer to a Challenge. InvalidArgument if `challenge` is not one, Unauthenticated
  // if its sender does not know the secret.
  absl::StatusOr<std::string> Join(absl::string_view challenge, const RankIdentity& own) const;

 private:
  const JobKey key_;
  const std::string nonce_;
};

// The coordinator's side of one connection.
class CoordinatorHandshake {
 public:
  // `key` must outlive it.
  CoordinatorHandshake(const JobKey& key, std::string nonce)
      : key_(key), nonce_(std::move(nonce)) {}

  struct Step {
    std::string reply = "";                            // empty: none
    std::optional<RankIdentity> joins = std::nullopt;  // set once the rank has proven who it is
    // Why the connection is not a rank of this job, worded to follow "it"; empty if it may be one.
    std::string fault = "";
  };
  Step Handle(absl::string_view frame);

 private:
  Step Hello(WireReader& reader);
  Step Join(WireReader& reader) const;

  const JobKey& key_;
  const std::string nonce_;
  std::string rank_nonce_;  // empty before the rank's Hello
};

}  // namespace zeroth
