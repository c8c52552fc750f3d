// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How a rank and rank 0's process show each other that they are of one job. The rank says which job
// it is of (Hello), rank 0's process answers with a proof that it knows the job's secret
// (Challenge), and the rank says who it is with a proof of its own (Join). Both prove it for
// numbers that the other has just drawn, so that what was heard once cannot be said again. Nobody
// hears the secret. What follows on the connection is neither signed nor encrypted.

#ifndef ZEROTH_CORE_COMM_PROCESS_HANDSHAKE_H_
#define ZEROTH_CORE_COMM_PROCESS_HANDSHAKE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/process/messages.h"

namespace zeroth {

// Longer messages come from ranks that have joined alone.
inline constexpr size_t kMostHandshakeBytes = 4096;

struct JobKey {
  // Another job is another id. Empty: nobody has given the job one.
  std::string id;
  // Empty: whoever knows the id is believed.
  std::string secret;

  // No other job has its id, and nobody who has not been told knows its secret.
  static absl::StatusOr<JobKey> New();
  // Something in it tells this job's ranks from others.
  bool Tells() const { return !id.empty() || !secret.empty(); }
};

// A number nobody can foresee; Internal if the system has none.
absl::StatusOr<std::string> NewNonce();

// Who a rank says that it is.
struct Announcement {
  int world_size = 1;
  int rank = 0;
  std::string back_end;
};

// A rank's side. Messages are frames without their length.
class RankHandshake {
 public:
  RankHandshake(JobKey key, std::string nonce) : key_(std::move(key)), nonce_(std::move(nonce)) {}

  std::string Hello() const;
  // The answer to a Challenge. InvalidArgument if it is not one; Unauthenticated if its sender
  // does not know the secret.
  absl::StatusOr<std::string> Join(absl::string_view challenge, const Announcement& own) const;

 private:
  const JobKey key_;
  const std::string nonce_;
};

// The side of rank 0's process, of one connection.
class CoordinatorHandshake {
 public:
  // `key` must outlive it.
  CoordinatorHandshake(const JobKey& key, std::string nonce)
      : key_(key), nonce_(std::move(nonce)) {}

  struct Step {
    std::string reply = "";                            // empty: none
    std::optional<Announcement> joins = std::nullopt;  // proven
    std::string fault = "";  // not empty: no rank of this job, in words that follow "it"
  };
  Step Handle(absl::string_view frame);

 private:
  Step Hello(WireReader& reader);
  Step Join(WireReader& reader) const;

  const JobKey& key_;
  const std::string nonce_;
  std::string rank_nonce_;  // empty before its Hello
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_HANDSHAKE_H_
