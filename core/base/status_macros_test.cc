// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

namespace zeroth {
namespace {

TEST(AnnotateTest, KeepsCodeAndPayloadAndPrefixesMessage) {
  absl::Status status = absl::DataLossError("truncated");
  status.SetPayload("zeroth/byte", absl::Cord("17"));
  const absl::Status annotated = Annotate(status, "model.safetensors");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(annotated.message(), "model.safetensors: truncated");
  ASSERT_TRUE(annotated.GetPayload("zeroth/byte").has_value());
  EXPECT_EQ(*annotated.GetPayload("zeroth/byte"), "17");
}

TEST(AnnotateTest, OkStaysOk) { EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok()); }

absl::Status PassOn(const absl::Status& status, int& reached) {
  ZEROTH_RETURN_IF_ERROR(status);
  ++reached;
  return absl::OkStatus();
}

TEST(ReturnIfErrorTest, ReturnsErrorsAndContinuesOtherwise) {
  int reached = 0;
  EXPECT_TRUE(PassOn(absl::OkStatus(), reached).ok());
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(PassOn(absl::AbortedError("x"), reached), absl::AbortedError("x"));
  EXPECT_EQ(reached, 1);
}

absl::Status PassOnWith(const absl::Status& status, int& contexts) {
  ZEROTH_RETURN_IF_ERROR_WITH(status, (++contexts, std::string("rank 3")));
  return absl::OkStatus();
}

TEST(ErrorsTest, JoinTheirParts) {
  EXPECT_EQ(InvalidArgument("rank ", 3, " of ", 2.5), absl::InvalidArgumentError("rank 3 of 2.5"));
  EXPECT_EQ(FailedPrecondition("gone"), absl::FailedPreconditionError("gone"));
  EXPECT_EQ(Unimplemented("a", std::string("b")), absl::UnimplementedError("ab"));
}

TEST(ReturnIfErrorWithTest, EvaluatesContextOnlyOnError) {
  int contexts = 0;
  EXPECT_TRUE(PassOnWith(absl::OkStatus(), contexts).ok());
  EXPECT_EQ(contexts, 0);
  EXPECT_EQ(PassOnWith(absl::AbortedError("gone"), contexts), absl::AbortedError("rank 3: gone"));
  EXPECT_EQ(contexts, 1);
}

absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a, absl::StatusOr<int> b) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<int> first, std::move(a));  // move-only values work
  int second = 0;
  ZEROTH_ASSIGN_OR_RETURN(second, b);
  return *first + second;
}

TEST(AssignOrReturnTest, AssignsValuesAndReturnsErrors) {
  EXPECT_EQ(*Sum(std::make_unique<int>(2), 3), 5);
  EXPECT_EQ(Sum(absl::NotFoundError("a"), 3).status(), absl::NotFoundError("a"));
  EXPECT_EQ(Sum(std::make_unique<int>(2), absl::NotFoundError("b")).status(),
            absl::NotFoundError("b"));
}

}  // namespace
}  // namespace zeroth
