// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/handshake.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/hmac.h"

namespace zeroth {
namespace {

constexpr size_t kNonceBytes = 32;
constexpr char kNoGreeting[] = "did not send a Zeroth handshake";

absl::StatusOr<std::string> RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  // For this few bytes, getrandom returns all of them or none.
  ssize_t got = -1;
  do {
    got = getrandom(bytes.data(), count, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(count)) {
    return absl::InternalError(absl::StrCat("cannot draw random bytes: ", std::strerror(errno)));
  }
  return bytes;
}

// The two sides' proofs differ, so that neither can send the other's proof back.
std::string ProofOfCoordinator(const JobKey& key, absl::string_view rank_nonce,
                               absl::string_view nonce) {
  return HmacSha256(
      key.secret,
      WireWriter().String("rank 0").String(key.id).String(rank_nonce).String(nonce).bytes());
}

std::string ProofOfRank(const JobKey& key, absl::string_view rank_nonce, absl::string_view nonce,
                        const RankIdentity& who) {
  WireWriter said;
  said.String("a rank").String(key.id).String(rank_nonce).String(nonce);
  said.I32(who.world_size).I32(who.rank).String(who.back_end);
  return HmacSha256(key.secret, said.bytes());
}

}  // namespace

absl::StatusOr<JobKey> JobKey::New() {
  ZEROTH_ASSIGN_OR_RETURN(const std::string id, RandomBytes(16));
  ZEROTH_ASSIGN_OR_RETURN(const std::string secret, RandomBytes(32));
  return JobKey{absl::BytesToHexString(id), absl::BytesToHexString(secret)};
}

absl::StatusOr<std::string> NewNonce() { return RandomBytes(kNonceBytes); }

std::string RankHandshake::Hello() const {
  WireWriter hello = Message(MessageType::kHello);
  hello.U32(kProtocolMagic).U32(kProtocolVersion).String(key_.id).String(nonce_);
  return hello.bytes();
}

absl::StatusOr<std::string> RankHandshake::Join(absl::string_view challenge,
                                                const RankIdentity& own) const {
  WireReader reader(challenge);
  const auto type = static_cast<MessageType>(reader.U8());
  const std::string nonce = reader.String();
  const std::string proof = reader.String();
  if (type != MessageType::kChallenge || !reader.IsComplete() || nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError("it sent a malformed challenge");
  }
  if (!SameBytes(proof, ProofOfCoordinator(key_, nonce_, nonce))) {
    return absl::UnauthenticatedError("it does not know this job's secret");
  }
  WireWriter join = Message(MessageType::kJoin);
  join.I32(own.world_size).I32(own.rank).String(own.back_end);
  join.String(ProofOfRank(key_, nonce_, nonce, own));
  return join.bytes();
}

CoordinatorHandshake::Step CoordinatorHandshake::Handle(absl::string_view frame) {
  WireReader reader(frame);
  const auto type = static_cast<MessageType>(reader.U8());
  if (type == MessageType::kHello && rank_nonce_.empty()) return Hello(reader);
  if (type == MessageType::kJoin && !rank_nonce_.empty()) return Join(reader);
  return {.fault = kNoGreeting};
}

CoordinatorHandshake::Step CoordinatorHandshake::Hello(WireReader& reader) {
  const uint32_t magic = reader.U32();
  const uint32_t version = reader.U32();
  if (!reader.ok() || magic != kProtocolMagic) return {.fault = kNoGreeting};
  if (version != kProtocolVersion) {
    const absl::Status refusal =
        InvalidArgument("rank 0 runs another version of this program (protocol ", kProtocolVersion,
                        ", this rank has ", version, "); run the same program on all nodes");
    return {.reply = StatusMessage(MessageType::kRefused, refusal).bytes(),
            .fault = absl::StrCat("runs another version of this program (protocol ", version,
                                  ", rank 0 has ", kProtocolVersion, ")")};
  }
  const std::string id = reader.String();
  const std::string nonce = reader.String();
  if (!reader.IsComplete() || nonce.size() != kNonceBytes) return {.fault = kNoGreeting};
  if (id != key_.id) {
    return {.reply = Message(MessageType::kAnotherJob).bytes(),
            .fault = id.empty() ? "is a rank without a job id, and this job has one"
                                : absl::StrCat("is a rank of another job, '",
                                               absl::CHexEscape(id.substr(0, 64)), "'")};
  }
  rank_nonce_ = nonce;
  return {.reply = Message(MessageType::kChallenge)
                       .String(nonce_)
                       .String(ProofOfCoordinator(key_, nonce, nonce_))
                       .bytes()};
}

CoordinatorHandshake::Step CoordinatorHandshake::Join(WireReader& reader) const {
  RankIdentity who;
  who.world_size = reader.I32();
  who.rank = reader.I32();
  who.back_end = reader.String();
  const std::string proof = reader.String();
  if (!reader.IsComplete()) return {.fault = kNoGreeting};
  if (!SameBytes(proof, ProofOfRank(key_, rank_nonce_, nonce_, who))) {
    return {.fault = "does not know this job's secret"};
  }
  return {.joins = who};
}

}  // namespace zeroth
