// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/emulation/fiber.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/watched.h"

namespace zeroth::cuda::emulation {
namespace {

// A fiber whose turns come one after the other for the thread sanitizer, too.
class OrderedFiber {
 public:
  void Start(std::function<void()> body) {
    body_ = std::move(body);
    fiber_.Start([this] {
      edges_.Acquire(0);
      body_();
      edges_.Release(0);
    });
  }
  void Resume() {
    edges_.Release(0);
    fiber_.Resume();
    edges_.Acquire(0);
  }
  void Suspend() {
    edges_.Release(0);
    fiber_.Suspend();
    edges_.Acquire(0);
  }
  bool done() const { return fiber_.done(); }

 private:
  Edges edges_{1};
  std::function<void()> body_;
  Fiber fiber_;
};

TEST(FiberTest, RunsInTurnsWithItsCaller) {
  OrderedFiber fiber;
  EXPECT_TRUE(fiber.done());
  std::string story;
  fiber.Start([&] {
    story += "a";
    fiber.Suspend();
    story += "b";
    fiber.Suspend();
    story += "c";
  });
  EXPECT_EQ(story, "");
  for (const char* expected : {"a", "ab", "abc"}) {
    EXPECT_FALSE(fiber.done());
    fiber.Resume();
    EXPECT_EQ(story, expected);
  }
  EXPECT_TRUE(fiber.done());
}

TEST(FiberTest, EachKeepsItsOwnLocals) {
  constexpr int kFibers = 300;
  std::vector<std::unique_ptr<OrderedFiber>> fibers;
  std::vector<double> results(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    fibers.push_back(std::make_unique<OrderedFiber>());
    fibers.back()->Start([&, i] {
      double local[64];
      for (int j = 0; j < 64; ++j) local[j] = i + j;
      fibers[static_cast<size_t>(i)]->Suspend();
      double sum = 0;
      for (const double value : local) sum += value;
      results[static_cast<size_t>(i)] = sum;
    });
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& fiber : fibers) fiber->Resume();
  }
  for (int i = 0; i < kFibers; ++i) {
    EXPECT_TRUE(fibers[static_cast<size_t>(i)]->done());
    EXPECT_EQ(results[static_cast<size_t>(i)], 64.0 * i + 63 * 32);
  }
}

TEST(FiberTest, IsUsedAgain) {
  OrderedFiber fiber;
  int runs = 0;
  // More often than the sanitizer's picture of a stack is deep.
  constexpr int kRuns = 100000;
  for (int i = 0; i < kRuns; ++i) {
    fiber.Start([&] { ++runs; });
    fiber.Resume();
    ASSERT_TRUE(fiber.done());
  }
  EXPECT_EQ(runs, kRuns);
}

}  // namespace
}  // namespace zeroth::cuda::emulation
