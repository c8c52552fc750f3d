// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cpu/cpu_stream.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

// Lets a test decide when a piece of work continues.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class CpuStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  std::unique_ptr<CpuStream> Worker(absl::string_view name = "worker") {
    return NewWorkerCpuStream(*device_, name, 1);
  }
  std::unique_ptr<CpuStream> Inline() { return NewInlineCpuStream(*device_, "inline"); }

  std::shared_ptr<Device> device_;
};

CpuStream::Work Do(std::function<void()> action) {
  return [action = std::move(action)] {
    action();
    return absl::OkStatus();
  };
}

CpuStream::Work Fail(const std::string& message) {
  return [message] { return absl::AbortedError(message); };
}

// The contract of both kinds of streams.
class AnyCpuStreamTest : public CpuStreamTest, public testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<CpuStream> NewStream() { return GetParam() ? Worker("any") : Inline(); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, AnyCpuStreamTest, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Worker" : "Inline");
});

TEST_P(AnyCpuStreamTest, RunsInOrder) {
  auto stream = NewStream();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(stream->Enqueue(Do([&order, i] { order.push_back(i); })).ok());
  }
  EXPECT_TRUE(stream->Synchronize().ok());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_P(AnyCpuStreamTest, EventIsDoneOnceTheWorkBeforeItHasRun) {
  auto stream = NewStream();
  int value = 0;
  ASSERT_TRUE(stream->Enqueue(Do([&value] { value = 7; })).ok());
  const auto event = stream->Record();
  ASSERT_TRUE(event.ok());
  EXPECT_TRUE((*event)->Synchronize().ok());
  EXPECT_TRUE((*event)->IsDone());
  EXPECT_EQ(value, 7);
}

TEST_P(AnyCpuStreamTest, FirstErrorSticksAndStopsTheStream) {
  auto stream = NewStream();
  bool ran = false;
  (void)stream->Enqueue(Fail("first"));
  (void)stream->Enqueue(Fail("second"));
  (void)stream->Enqueue(Do([&ran] { ran = true; }));
  const absl::Status first = absl::AbortedError("first");
  EXPECT_EQ(stream->Synchronize(), first);
  EXPECT_EQ(stream->Synchronize(), first);
  EXPECT_EQ(stream->status(), first);
  EXPECT_EQ(stream->Enqueue(Do([&ran] { ran = true; })), first);
  EXPECT_EQ(stream->Record().status(), first);
  EXPECT_EQ(stream->Wait(*Inline()->Record()), first);
  EXPECT_FALSE(ran);
}

TEST_P(AnyCpuStreamTest, ExceptionsBecomeErrors) {
  auto stream = NewStream();
  (void)stream->Enqueue([]() -> absl::Status { throw std::runtime_error("out of luck"); });
  const absl::Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), std::string("work on stream '") + std::string(stream->name()) +
                                  "' threw an exception: out of luck");
}

TEST_P(AnyCpuStreamTest, FailedEventFailsTheStreamThatWaits) {
  Gate gate;
  auto source = Worker("source");
  ASSERT_TRUE(source
                  ->Enqueue([&gate] {
                    gate.Pass();
                    return absl::DataLossError("source broke");
                  })
                  .ok());
  const auto event = source->Record();
  ASSERT_TRUE(event.ok());
  gate.Open();
  auto stream = NewStream();
  bool ran = false;
  (void)stream->Wait(*event);
  (void)stream->Enqueue(Do([&ran] { ran = true; }));
  EXPECT_EQ(stream->Synchronize(), absl::DataLossError("source broke"));
  EXPECT_FALSE(ran);
}

TEST_P(AnyCpuStreamTest, SynchronizeReleasesWhatTheWorkHeld) {
  auto stream = NewStream();
  auto held = std::make_shared<int>(1);
  ASSERT_TRUE(stream->Enqueue([held] { return absl::OkStatus(); }).ok());
  (void)stream->Enqueue(Fail("then fail"));
  (void)stream->Enqueue([held] { return absl::OkStatus(); });  // dropped
  (void)stream->Synchronize();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(AnyCpuStreamTest, KnowsItsNameAndDevice) {
  auto stream = NewStream();
  EXPECT_EQ(stream->name(), GetParam() ? "any" : "inline");
  EXPECT_EQ(&stream->device(), device_.get());
  EXPECT_EQ(&CpuStream::From(*stream), stream.get());
}

TEST_P(AnyCpuStreamTest, AcceptsWorkFromSeveralThreadsOneAtATime) {
  auto stream = NewStream();
  int counter = 0;  // unsynchronised on purpose: the stream must order the work
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) (void)stream->Enqueue(Do([&counter] { ++counter; }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(counter, 800);
}

TEST_F(CpuStreamTest, InlineRunsOnTheCallerBeforeReturning) {
  auto stream = Inline();
  std::thread::id ran_on;
  EXPECT_TRUE(stream->Enqueue(Do([&ran_on] { ran_on = std::this_thread::get_id(); })).ok());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(stream->Enqueue(Fail("now")), absl::AbortedError("now"));
}

TEST_F(CpuStreamTest, InlineWorkMayEnqueueMore) {
  auto stream = Inline();
  int value = 0;
  EXPECT_TRUE(stream->Enqueue([&] { return stream->Enqueue(Do([&value] { value = 3; })); }).ok());
  EXPECT_EQ(value, 3);
}

TEST_F(CpuStreamTest, InlineWaitBlocksUntilTheEventIsDone) {
  Gate gate;
  auto worker = Worker();
  int value = 0;
  ASSERT_TRUE(worker
                  ->Enqueue(Do([&] {
                    gate.Pass();
                    value = 1;
                  }))
                  .ok());
  const auto event = worker->Record();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE((*event)->IsDone());
  gate.Open();
  auto stream = Inline();
  EXPECT_TRUE(stream->Wait(*event).ok());
  EXPECT_TRUE((*event)->IsDone());
  EXPECT_EQ(value, 1);
}

TEST_F(CpuStreamTest, WorkerRunsBesideTheCaller) {
  Gate gate;
  auto stream = Worker();
  std::thread::id ran_on;
  ASSERT_TRUE(stream
                  ->Enqueue(Do([&] {
                    gate.Pass();
                    ran_on = std::this_thread::get_id();
                  }))
                  .ok());
  const auto event = stream->Record();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE((*event)->IsDone());  // the caller got here although the work has not ended
  gate.Open();
  EXPECT_TRUE((*event)->Synchronize().ok());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(CpuStreamTest, WorkerTeamSizeIsItsOwn) {
  const int callers = omp_get_max_threads();
  auto stream = NewWorkerCpuStream(*device_, "team", callers + 2);
  int workers = 0;
  ASSERT_TRUE(stream->Enqueue(Do([&workers] { workers = omp_get_max_threads(); })).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(workers, callers + 2);
  EXPECT_EQ(omp_get_max_threads(), callers);
}

// Data goes round a ring of workers, each waiting for its predecessor's event; only the events
// order the accesses.
TEST_F(CpuStreamTest, EventsOrderWorkAcrossStreams) {
  constexpr int kStreams = 4;
  constexpr int kLaps = 50;
  std::vector<std::unique_ptr<CpuStream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(Worker());
  std::vector<int> trace;
  std::shared_ptr<Event> previous;
  for (int i = 0; i < kStreams * kLaps; ++i) {
    CpuStream& stream = *streams[static_cast<size_t>(i % kStreams)];
    if (previous != nullptr) {
      ASSERT_TRUE(stream.Wait(previous).ok());
    }
    ASSERT_TRUE(stream.Enqueue(Do([&trace, i] { trace.push_back(i); })).ok());
    auto event = stream.Record();
    ASSERT_TRUE(event.ok());
    previous = *event;
  }
  ASSERT_TRUE(previous->Synchronize().ok());
  ASSERT_EQ(trace.size(), static_cast<size_t>(kStreams * kLaps));
  for (int i = 0; i < kStreams * kLaps; ++i) ASSERT_EQ(trace[static_cast<size_t>(i)], i);
}

TEST_F(CpuStreamTest, WaitHoldsBackOnlyWhatComesAfterIt) {
  Gate gate;
  auto source = Worker("source");
  auto stream = Worker("waiting");
  bool source_ran = false;
  bool ran_after_source = false;
  ASSERT_TRUE(source
                  ->Enqueue(Do([&] {
                    gate.Pass();
                    source_ran = true;
                  }))
                  .ok());
  const auto event = source->Record();
  ASSERT_TRUE(event.ok());
  int before = 0;
  ASSERT_TRUE(stream->Enqueue(Do([&before] { before = 1; })).ok());
  const auto before_event = stream->Record();
  ASSERT_TRUE(before_event.ok());
  ASSERT_TRUE(stream->Wait(*event).ok());
  ASSERT_TRUE(stream->Enqueue(Do([&] { ran_after_source = source_ran; })).ok());
  EXPECT_TRUE((*before_event)->Synchronize().ok());  // not held back: the gate is still closed
  EXPECT_EQ(before, 1);
  gate.Open();
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(ran_after_source);
}

TEST_F(CpuStreamTest, EventsOfAFailedWorkerStillBecomeDone) {
  Gate gate;
  auto stream = Worker();
  ASSERT_TRUE(stream
                  ->Enqueue([&gate] {
                    gate.Pass();
                    return absl::AbortedError("broken");
                  })
                  .ok());
  std::vector<std::shared_ptr<Event>> events;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream->Enqueue(Do([] {})).ok());
    auto event = stream->Record();
    ASSERT_TRUE(event.ok());
    events.push_back(*event);
  }
  gate.Open();
  for (const auto& event : events) {
    EXPECT_EQ(event->Synchronize(), absl::AbortedError("broken"));
    EXPECT_TRUE(event->IsDone());
  }
}

// Memory that another stream's work uses must not be freed early because this stream has failed.
TEST_F(CpuStreamTest, AFailedWorkerStillWaitsForOtherStreams) {
  Gate failing;
  Gate working;
  auto failed = Worker("failed");
  auto other = Worker("other");
  std::atomic<bool> worked = false;
  ASSERT_TRUE(other
                  ->Enqueue(Do([&] {
                    working.Pass();
                    worked = true;
                  }))
                  .ok());
  const auto others_event = other->Record();
  ASSERT_TRUE(others_event.ok());
  ASSERT_TRUE(failed
                  ->Enqueue([&failing] {
                    failing.Pass();
                    return absl::AbortedError("broken");
                  })
                  .ok());
  const auto error = failed->Record();
  ASSERT_TRUE(error.ok());
  ASSERT_TRUE(failed->Wait(*others_event).ok());
  const auto event = failed->Record();
  ASSERT_TRUE(event.ok());
  failing.Open();
  EXPECT_EQ((*error)->Synchronize(), absl::AbortedError("broken"));
  EXPECT_FALSE((*event)->IsDone());
  working.Open();
  EXPECT_EQ((*event)->Synchronize(), absl::AbortedError("broken"));
  EXPECT_TRUE(worked);
}

TEST_F(CpuStreamTest, ErrorOfOneRankReachesManyHosts) {
  auto stream = Worker();
  (void)stream->Enqueue(Fail("for everybody"));
  std::vector<std::thread> hosts;
  std::vector<std::string> seen(4);
  for (size_t t = 0; t < seen.size(); ++t) {
    hosts.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const absl::Status status = stream->Synchronize();
        seen[t] = std::string(status.message());
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(seen, std::vector<std::string>(4, "for everybody"));
}

TEST_F(CpuStreamTest, DestructorRunsWhatIsEnqueued) {
  int ran = 0;
  {
    auto stream = Worker();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(stream->Enqueue(Do([&ran] { ++ran; })).ok());
  }
  EXPECT_EQ(ran, 50);
}

TEST_F(CpuStreamTest, EventOutlivesItsStream) {
  std::shared_ptr<Event> event;
  {
    auto stream = Worker();
    event = *stream->Record();
  }
  EXPECT_TRUE(event->IsDone());
  EXPECT_TRUE(Inline()->Wait(event).ok());
}

class ForeignStream : public Stream {
 public:
  explicit ForeignStream(Device& device) : device_(device) {}
  Device& device() const override { return device_; }
  absl::string_view name() const override { return "foreign"; }
  absl::StatusOr<std::shared_ptr<Event>> Record() override { return absl::UnimplementedError(""); }
  absl::Status Wait(const std::shared_ptr<Event>&) override { return absl::UnimplementedError(""); }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  Device& device_;
};

using CpuStreamDeathTest = CpuStreamTest;

TEST_F(CpuStreamDeathTest, FromRefusesOtherKindsOfStream) {
  ForeignStream foreign(*device_);
  EXPECT_DEATH(CpuStream::From(foreign), "invariant violated");
}

TEST_F(CpuStreamDeathTest, SynchronizeFromItsOwnWorkAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto stream = Worker();
        (void)stream->Enqueue([&stream] { return stream->Synchronize(); });
        (void)stream->Synchronize();
      },
      "invariant violated");
}

}  // namespace
}  // namespace zeroth
