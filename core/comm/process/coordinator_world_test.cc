// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator_world.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {
namespace {

// All ranks of a world without sockets: rank r has connection r.
class CoordinatorWorldTest : public ::testing::Test {
 protected:
  void Start(int size) {
    Coordinator::Options options;
    options.world_size = size;
    options.back_end = "test";
    options.timeout = absl::Minutes(1);
    world_ = std::make_unique<CoordinatorWorld>(options, /*port=*/1);
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(world_->Join(static_cast<size_t>(rank), {size, rank, "test"}).ok());
    }
    EXPECT_TRUE(world_->started());
    TakeMessages();
  }

  static std::string Call(uint32_t group, uint64_t index, const std::string& label, bool awaits) {
    return Calls(group, index, {label}, awaits);
  }
  // A message with a call for each label, from call `index` on.
  static std::string Calls(uint32_t group, uint64_t index, const std::vector<std::string>& labels,
                           bool awaits) {
    WireWriter message = Message(MessageType::kCall).U32(group).U8(awaits ? 1 : 0);
    for (const std::string& label : labels) {
      CollectiveCall call;
      call.operation = CollectiveOpName(CollectiveOp::kAllReduce);
      call.index = index++;
      call.count = 7;
      call.dtype = DType::kFloat32;
      call.label = label;
      WriteCall(call, message);
    }
    return message.bytes();
  }

  void Send(int rank, absl::string_view message) {
    EXPECT_TRUE(world_->Handle(static_cast<size_t>(rank), message)) << "rank " << rank;
  }
  void Send(int rank, const WireWriter& message) { Send(rank, message.bytes()); }

  // The messages to send, by rank.
  std::vector<std::vector<std::string>> TakeMessages() {
    std::vector<std::vector<std::string>> messages;
    for (const CoordinatorWorld::Output& output : world_->TakeOutput()) {
      for (const size_t rank : output.connections) {
        if (messages.size() <= rank) messages.resize(rank + 1);
        messages[rank].push_back(output.message);
      }
    }
    return messages;
  }

  // The error that rank 0 is told next.
  absl::Status TakeBroken() {
    for (const auto& messages : TakeMessages()) {
      for (const std::string& message : messages) {
        WireReader reader(message);
        if (static_cast<MessageType>(reader.U8()) == MessageType::kBroken) {
          return ReadStatus(reader);
        }
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<CoordinatorWorld> world_;
};

std::string Agreed(uint32_t group, uint64_t count) {
  return Message(MessageType::kAgreed).U32(group).U64(count).bytes();
}

TEST_F(CoordinatorWorldTest, OneAnswerForCallsThatArrivedTogether) {
  Start(2);
  for (uint64_t i = 0; i < 5; ++i) Send(0, Call(kWorldGroup, i, "h", /*awaits=*/i == 4));
  EXPECT_TRUE(TakeMessages().empty());
  for (uint64_t i = 0; i < 5; ++i) Send(1, Call(kWorldGroup, i, "h", /*awaits=*/i == 4));
  const auto messages = TakeMessages();
  ASSERT_EQ(messages.size(), 2u);
  for (const auto& of_rank : messages) {
    EXPECT_EQ(of_rank, std::vector<std::string>{Agreed(kWorldGroup, 5)});
  }
}

// However the ranks divide their calls into messages, each receives one answer.
TEST_F(CoordinatorWorldTest, OneAnswerForTheCallsOfAMessage) {
  Start(3);
  Send(0, Calls(kWorldGroup, 0, {"a", "b", "c"}, /*awaits=*/true));
  Send(1, Call(kWorldGroup, 0, "a", /*awaits=*/false));
  Send(1, Calls(kWorldGroup, 1, {"b", "c"}, /*awaits=*/true));
  EXPECT_TRUE(TakeMessages().empty());
  Send(2, Calls(kWorldGroup, 0, {"a", "b", "c"}, /*awaits=*/true));
  EXPECT_EQ(TakeMessages(), (std::vector<std::vector<std::string>>(3, {Agreed(0, 3)})));
}

TEST_F(CoordinatorWorldTest, ADifferenceInsideAMessageNamesTheCall) {
  Start(2);
  Send(0, Calls(kWorldGroup, 0, {"a", "b", "c"}, /*awaits=*/true));
  Send(1, Calls(kWorldGroup, 0, {"a", "x", "c"}, /*awaits=*/true));
  EXPECT_EQ(TakeBroken(),
            absl::FailedPreconditionError(
                "collectives do not match on test world ranks [0, 1]: rank 0 called all_reduce "
                "'b' (call 2, 7 x fp32), rank 1 called all_reduce 'x' (call 2, 7 x fp32); all "
                "ranks must make the same calls in the same order"));
}

TEST_F(CoordinatorWorldTest, MalformedCallsAreRefused) {
  Start(1);
  EXPECT_FALSE(world_->Handle(0, Calls(kWorldGroup, 0, {}, /*awaits=*/true))) << "no call";
  const std::string calls = Calls(kWorldGroup, 0, {"a", "b"}, /*awaits=*/true);
  EXPECT_FALSE(world_->Handle(0, calls.substr(0, calls.size() - 1))) << "cut";
  EXPECT_FALSE(world_->Handle(0, calls + std::string("\1\0\0\0\1", 5))) << "another third call";
}

TEST_F(CoordinatorWorldTest, CallsThatNobodyAwaitsAreAnnouncedLater) {
  Start(2);
  for (int rank : {0, 1}) Send(rank, Call(kWorldGroup, 0, "h", /*awaits=*/false));
  EXPECT_TRUE(TakeMessages().empty());
  const auto next = world_->NextTimeout();
  ASSERT_TRUE(next.has_value());
  EXPECT_LT(*next - CoordinatorWorld::Clock::now(), std::chrono::seconds(1));
  world_->CheckTimeouts(*next);
  EXPECT_EQ(TakeMessages(), (std::vector<std::vector<std::string>>(2, {Agreed(0, 1)})));

  for (int rank : {0, 1}) Send(rank, Call(kWorldGroup, 1, "h", /*awaits=*/false));
  EXPECT_TRUE(TakeMessages().empty());
  Send(1, Message(MessageType::kAwait).U32(kWorldGroup).U64(2));
  EXPECT_EQ(TakeMessages(), (std::vector<std::vector<std::string>>(2, {Agreed(0, 2)})));
}

// A call succeeds on all ranks or on none, also if the world breaks before it was announced.
TEST_F(CoordinatorWorldTest, AgreedCallsAreAnnouncedBeforeTheWorldBreaks) {
  for (const bool awaits : {false, true}) {
    Start(2);
    for (int rank : {0, 1}) Send(rank, Call(kWorldGroup, 0, "h", awaits));
    Send(1, StatusMessage(MessageType::kBreak, absl::AbortedError("rank 1 aborted")));
    const auto messages = TakeMessages();
    ASSERT_EQ(messages.size(), 2u);
    for (const auto& of_rank : messages) {
      ASSERT_EQ(of_rank.size(), 2u);
      EXPECT_EQ(of_rank[0], Agreed(kWorldGroup, 1));
      EXPECT_EQ(WireReader(of_rank[1]).U8(), static_cast<uint8_t>(MessageType::kBroken));
    }
  }
}

// A device may still run calls when the ranks' functions have returned.
TEST_F(CoordinatorWorldTest, AgreedCallsAreAnnouncedBeforeAllHaveReturned) {
  Start(2);
  for (int rank : {0, 1}) Send(rank, Call(kWorldGroup, 0, "h", /*awaits=*/false));
  for (int rank : {0, 1}) Send(rank, StatusMessage(MessageType::kReturned, absl::OkStatus()));
  const auto messages = TakeMessages();
  ASSERT_EQ(messages.size(), 2u);
  for (const auto& of_rank : messages) {
    ASSERT_EQ(of_rank.size(), 2u);
    EXPECT_EQ(of_rank[0], Agreed(kWorldGroup, 1));
    EXPECT_EQ(WireReader(of_rank[1]).U8(), static_cast<uint8_t>(MessageType::kAllReturned));
  }
}

TEST_F(CoordinatorWorldTest, ErrorsNameTheRankAndTheCall) {
  constexpr int kSize = 10'000;
  Start(kSize);
  for (int rank = 0; rank < kSize; ++rank) {
    Send(rank, Call(kWorldGroup, 0, "same", /*awaits=*/false));
  }
  Send(17, Call(kWorldGroup, 1, "h.1", /*awaits=*/false));
  Send(9123, Call(kWorldGroup, 1, "h.2", /*awaits=*/false));
  EXPECT_EQ(TakeBroken(),
            absl::FailedPreconditionError(
                "collectives do not match on test world ranks [0-9999]: rank 17 called all_reduce "
                "'h.1' (call 2, 7 x fp32), rank 9123 called all_reduce 'h.2' (call 2, 7 x fp32); "
                "all ranks must make the same calls in the same order"));

  Start(kSize);
  Send(9000, Call(kWorldGroup, 0, "lost", /*awaits=*/false));
  world_->Disconnected(9000);
  EXPECT_EQ(TakeBroken(),
            absl::UnavailableError(
                "rank 9000 failed: its process has ended or cannot be reached: the connection to "
                "it is lost (its last call was all_reduce 'lost' (call 1, 7 x fp32) on test world "
                "ranks [0-9999])"));
}

// Calls that a rank posts early are compared with the right calls of the other ranks.
TEST_F(CoordinatorWorldTest, EarlyCallsThatDifferBreakTheWorld) {
  Start(3);
  for (uint64_t i = 0; i < 3; ++i) {
    Send(0, Call(kWorldGroup, i, absl::StrCat("h.", i), /*awaits=*/false));
  }
  for (uint64_t i = 0; i < 3; ++i) {
    Send(2, Call(kWorldGroup, i, i == 1 ? "x" : absl::StrCat("h.", i), /*awaits=*/false));
  }
  EXPECT_EQ(TakeBroken(), absl::OkStatus());
  Send(1, Call(kWorldGroup, 0, "h.0", /*awaits=*/false));
  EXPECT_EQ(TakeBroken(),
            absl::FailedPreconditionError(
                "collectives do not match on test world ranks [0-2]: rank 0 called all_reduce "
                "'h.1' (call 2, 7 x fp32), rank 2 called all_reduce 'x' (call 2, 7 x fp32); all "
                "ranks must make the same calls in the same order"));
}

TEST_F(CoordinatorWorldTest, AWaitThatIsTooLongBreaksTheWorld) {
  Start(5);
  for (int rank : {0, 1, 2, 4}) Send(rank, Call(kWorldGroup, 0, "h", /*awaits=*/true));
  const auto next = world_->NextTimeout();
  ASSERT_TRUE(next.has_value());
  for (size_t rank = 0; rank < 5; ++rank) {
    EXPECT_TRUE(world_->Handle(rank, Message(MessageType::kPing).bytes(), *next));
  }
  world_->CheckTimeouts(*next);
  EXPECT_EQ(TakeBroken(), absl::DeadlineExceededError(
                              "timeout after 1m in all_reduce 'h' (call 1, 7 x fp32) on test world "
                              "ranks [0-4]: missing rank 3 (ranks 0-2, 4: waiting in all_reduce "
                              "'h' (call 1, 7 x fp32); rank 3: no call yet)"));
}

// The timeout of a wait that has ended does not cut a later wait short.
TEST_F(CoordinatorWorldTest, AWaitThatHasEndedDoesNotTimeOut) {
  Start(2);
  Send(0, Call(kWorldGroup, 0, "h", /*awaits=*/true));
  const auto first = world_->NextTimeout();
  Send(1, Call(kWorldGroup, 0, "h", /*awaits=*/true));
  Send(1, Call(kWorldGroup, 1, "h", /*awaits=*/true));
  TakeMessages();
  world_->CheckTimeouts(*first);
  EXPECT_EQ(TakeBroken(), absl::OkStatus());
  const auto second = world_->NextTimeout();
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(*second, *first);
  world_->CheckTimeouts(*second);
  EXPECT_EQ(TakeBroken().code(), absl::StatusCode::kDeadlineExceeded);
}

// If hosts run ahead of transfers, a rank that is stopped has already posted its calls, and another
// rank notices that the transfers do not end.
TEST_F(CoordinatorWorldTest, ATimeoutNamesRanksFromWhichNothingComes) {
  const absl::Status stuck = absl::DeadlineExceededError("rank 1 failed: timeout after 1m in h");
  Start(4);
  const auto start = CoordinatorWorld::Clock::now();
  const auto send_after = [&](int seconds, int rank, const std::string& message) {
    EXPECT_TRUE(
        world_->Handle(static_cast<size_t>(rank), message, start + std::chrono::seconds(seconds)));
  };
  const std::string ping = Message(MessageType::kPing).bytes();
  for (int rank : {0, 1, 3}) send_after(30, rank, ping);
  send_after(60, 1, StatusMessage(MessageType::kBreak, stuck).bytes());
  EXPECT_EQ(TakeBroken(),
            absl::DeadlineExceededError(
                "rank 1 failed: timeout after 1m in h; for more than 35s nothing has come from "
                "rank 2: see whether it was stopped, or its machine or network has failed"));

  Start(4);
  for (int rank : {0, 1, 3}) send_after(30, rank, ping);
  send_after(
      60, 1,
      StatusMessage(MessageType::kReturned, absl::DeadlineExceededError("no start")).bytes());
  EXPECT_EQ(TakeBroken(),
            absl::DeadlineExceededError(
                "rank 1 failed: no start; for more than 35s nothing has come from rank 2: see "
                "whether it was stopped, or its machine or network has failed"));

  // Rank 1 does not come because it is in a transfer with rank 2.
  Start(4);
  for (int rank : {0, 2, 3}) Send(rank, Call(kWorldGroup, 0, "h", /*awaits=*/true));
  for (int rank : {0, 1, 3}) send_after(30, rank, ping);
  world_->CheckTimeouts(*world_->NextTimeout());
  EXPECT_EQ(TakeBroken(), absl::DeadlineExceededError(
                              "timeout after 1m in all_reduce 'h' (call 1, 7 x fp32) on test world "
                              "ranks [0-3]: missing rank 1 (ranks 0, 2, 3: waiting in all_reduce "
                              "'h' (call 1, 7 x fp32); rank 1: no call yet); for more than 35s "
                              "nothing has come from rank 2: see whether it was stopped, or its "
                              "machine or network has failed"));

  Start(4);
  for (int rank : {0, 1, 2, 3}) send_after(30, rank, ping);
  send_after(60, 1, StatusMessage(MessageType::kBreak, stuck).bytes());
  EXPECT_EQ(TakeBroken(), stuck);

  Start(4);
  const absl::Status full = absl::ResourceExhaustedError("rank 1 failed: the disk is full");
  send_after(60, 1, StatusMessage(MessageType::kBreak, full).bytes());
  EXPECT_EQ(TakeBroken(), full);
}

TEST_F(CoordinatorWorldTest, AGroupEndsWithItsLastRank) {
  Start(4);
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 4; ++rank) {
      Send(rank, Message(MessageType::kSplit).U32(kWorldGroup).I32(rank % 2).I32(0));
    }
    EXPECT_EQ(world_->group_count(), 3u);
    const auto seats = TakeMessages();
    ASSERT_EQ(seats.size(), 4u);
    const auto group_of = [&](size_t rank) {
      WireReader reader(seats[rank].front());
      EXPECT_EQ(static_cast<MessageType>(reader.U8()), MessageType::kSeat);
      EXPECT_EQ(reader.U32(), kWorldGroup);
      return reader.U32();
    };
    const uint32_t even = group_of(0);
    const uint32_t odd = group_of(1);
    EXPECT_NE(even, odd);
    for (int rank : {0, 2}) Send(rank, Call(even, 0, "h", /*awaits=*/false));
    Send(0, Message(MessageType::kLeave).U32(even));
    EXPECT_EQ(world_->group_count(), 3u);
    Send(2, Message(MessageType::kLeave).U32(even));
    EXPECT_EQ(world_->group_count(), 2u);
    // The ranks were told of all calls, but a rank may ask nevertheless.
    EXPECT_EQ(TakeMessages()[2], std::vector<std::string>{Agreed(even, 1)});
    Send(2, Message(MessageType::kAwait).U32(even).U64(1));
    for (int rank : {1, 3}) Send(rank, Message(MessageType::kLeave).U32(odd));
    EXPECT_EQ(world_->group_count(), 1u);
    for (int rank = 0; rank < 4; ++rank) Send(rank, Message(MessageType::kLeave).U32(kWorldGroup));
    EXPECT_EQ(world_->group_count(), 1u) << "the group of all ranks stays";
    Start(4);
  }
  EXPECT_FALSE(world_->Handle(0, Call(7, 0, "no such group", /*awaits=*/false)));
}

// A start of 10,000 ranks: each passes a value with a long host name, and then all split.
TEST_F(CoordinatorWorldTest, AnswersToTenThousandRanksFitIntoFrames) {
  constexpr int kSize = 10'000;
  for (const int ranks_of_host : {1, 8}) {
    Start(kSize);
    std::vector<std::string> values;
    for (int rank = 0; rank < kSize; ++rank) {
      values.push_back(absl::StrCat(std::string(253, 'h'), rank / ranks_of_host));
      Send(rank, Message(MessageType::kMeet).U32(kWorldGroup).String(values.back()));
    }
    MeetingAnswer answer;
    for (const CoordinatorWorld::Output& part : world_->TakeOutput()) {
      EXPECT_FALSE(answer.IsComplete());
      EXPECT_EQ(part.connections.size(), static_cast<size_t>(kSize));
      EXPECT_LT(part.message.size(), size_t{kMostFrameBytes});
      WireReader reader(part.message);
      EXPECT_EQ(static_cast<MessageType>(reader.U8()), MessageType::kMet);
      EXPECT_EQ(reader.U32(), kWorldGroup);
      EXPECT_TRUE(answer.Add(reader, kSize));
    }
    ASSERT_TRUE(answer.IsComplete());
    EXPECT_EQ(answer.TakeValues(), values);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    Send(rank, Message(MessageType::kSplit).U32(kWorldGroup).I32(rank % 8).I32(-rank));
  }
  const auto seats = TakeMessages();
  ASSERT_EQ(seats.size(), static_cast<size_t>(kSize));
  EXPECT_LT(seats.back().front().size(), 64u);
  WireReader reader(seats.back().front());
  reader.U8();
  reader.U32();
  reader.U32();
  EXPECT_EQ(reader.U32(), 0u);
  const std::vector<int> members = ReadRanks(reader, kSize);
  EXPECT_TRUE(reader.IsComplete());
  ASSERT_EQ(members.size(), size_t{kSize / 8});
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(members[i], kSize - 1 - 8 * static_cast<int>(i));
  }
}

TEST(RanksTest, AnyOrderIsRead) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{}, {3}, {5, 5}, {0, 1, 2, 7, 9, 11, 10}, {9, 6, 3, 0, 1}}) {
    WireWriter writer;
    WriteRanks(ranks, writer);
    WireReader reader(writer.bytes());
    EXPECT_EQ(ReadRanks(reader, 7), ranks);
    EXPECT_TRUE(reader.IsComplete());
  }
}

TEST(RanksTest, MoreThanTheWorldAreRefused) {
  WireWriter writer;
  WriteRanks({0, 1, 2, 3}, writer);
  WireReader reader(writer.bytes());
  EXPECT_TRUE(ReadRanks(reader, 3).empty());
  EXPECT_FALSE(reader.ok());
  const std::string endless = WireWriter().U32(3).I32(0).I32(1).U32(0xffffffff).bytes();
  WireReader too_many(endless);
  EXPECT_TRUE(ReadRanks(too_many, 3).empty());
  EXPECT_FALSE(too_many.ok());
}

TEST(MeetingAnswerTest, MalformedPartsAreRefused) {
  const std::string good = MeetingAnswer::Messages(0, {"a", "a", "b", "a"}).front().substr(5);
  const auto accepts = [](const std::string& bytes, int most) {
    WireReader reader(bytes);
    return MeetingAnswer().Add(reader, most);
  };
  EXPECT_TRUE(accepts(good, 4));
  EXPECT_FALSE(accepts(good, 3)) << "more ranks than the world has";
  for (size_t size = 1; size < 4; ++size) {
    EXPECT_FALSE(accepts(good.substr(0, good.size() - size), 4)) << "cut by " << size;
  }
  EXPECT_FALSE(accepts(WireWriter().U32(2).U32(3).U32(0).String("a").bytes(), 4))
      << "more values than announced";
  EXPECT_FALSE(accepts(WireWriter().U32(2).U32(1).U32(1).bytes(), 4)) << "a number without value";
}

}  // namespace
}  // namespace zeroth
