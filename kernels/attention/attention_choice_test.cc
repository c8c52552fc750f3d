// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests when cuDNN is chosen for attention, and how a call is split for it. The library is a fake
// that records requests; cudnn_test tests cuDNN's own plans.

#include "zeroth/kernels/attention/attention_choice.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/cudnn.h"

namespace zeroth::cuda {
namespace {

// Records the requests to a library, and holds its answers.
struct Library {
  size_t backward_bytes_of_score = 2;
  absl::Status backward;
  struct Enqueued {
    CudnnAttentionKey key;
    CudnnAttentionPointers pointers;
  };
  std::vector<CudnnAttentionKey> planned;
  std::vector<Enqueued> enqueued;
  int made = 0;
};

class WrittenPlan : public CudnnAttentionPlan {
 public:
  WrittenPlan(Library& library, const CudnnAttentionKey& key) : library_(library), key_(key) {
    const AttentionShape& shape = key.shape;
    if (key.pass == AttentionPass::kBackward) {
      workspace_ = static_cast<size_t>(shape.batch * shape.heads * shape.seq * shape.seq) *
                   library.backward_bytes_of_score;
    }
  }
  size_t workspace_bytes() const override { return workspace_; }
  absl::Status Enqueue(const CudnnAttentionPointers& pointers, void*) override {
    library_.enqueued.push_back({key_, pointers});
    return absl::OkStatus();
  }

 private:
  Library& library_;
  const CudnnAttentionKey key_;
  size_t workspace_ = 0;
};

class WritingCudnn : public Cudnn {
 public:
  explicit WritingCudnn(Library& library) : library_(library) {}
  const std::string& version() const override { return version_; }
  absl::StatusOr<std::unique_ptr<CudnnAttentionPlan>> MakePlan(
      const CudnnAttentionKey& key) override {
    library_.planned.push_back(key);
    if (key.pass == AttentionPass::kBackward && !library_.backward.ok()) return library_.backward;
    return std::make_unique<WrittenPlan>(library_, key);
  }

 private:
  Library& library_;
  const std::string version_ = "9.99.0";
};

AttentionChoice ChoiceOf(const KernelOptions& options, Library& library) {
  return AttentionChoice(options, [&library]() -> absl::StatusOr<std::unique_ptr<Cudnn>> {
    ++library.made;
    return std::make_unique<WritingCudnn>(library);
  });
}

AttentionChoice ChoiceOf(AttentionBackend wanted, Library& library) {
  return ChoiceOf(KernelOptions{.attention = wanted}, library);
}

AttentionChoice WithoutLibrary(AttentionBackend wanted) {
  return AttentionChoice({.attention = wanted}, []() -> absl::StatusOr<std::unique_ptr<Cudnn>> {
    return absl::UnimplementedError("cuDNN: not found: libcudnn.so.9");
  });
}

constexpr AttentionShape kShape = {8, 1024, 12, 12, 64};

CudnnAttentionKey Key(const AttentionShape& shape, AttentionPass pass,
                      DType dtype = DType::kBFloat16) {
  return {shape, dtype, pass};
}

TEST(AttentionChoiceTest, AutoTakesCudnnWhereItCan) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  for (int i = 0; i < 3; ++i) {
    const auto workspace = choice.CudnnWorkspace(Key(kShape, AttentionPass::kForward), {});
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    EXPECT_TRUE(workspace->has_value());
  }
  EXPECT_EQ(library.made, 1);
  EXPECT_EQ(library.planned.size(), 1u) << "a plan is kept";
}

TEST(AttentionChoiceTest, CappedScoresAreNotAskedOfCudnn) {
  Library library;
  AttentionShape capped = kShape;
  capped.cap = 50.0f;
  const auto words = ChoiceOf(AttentionBackend::kAuto, library).Describe(capped, DType::kBFloat16);
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(*words,
            "Zeroth's kernels (cuDNN: capped scores are not asked of it; Zeroth's plain kernels "
            "compute attention with them)");
  const absl::Status by_name = ChoiceOf(AttentionBackend::kCudnn, library)
                                   .CudnnWorkspace(Key(capped, AttentionPass::kBackward), {})
                                   .status();
  EXPECT_TRUE(absl::IsUnimplemented(by_name)) << by_name;
  EXPECT_EQ(library.made, 0);
  // Another scale needs another plan.
  AttentionShape scaled = kShape;
  scaled.scale = 0.3f;
  EXPECT_TRUE(Key(kShape, AttentionPass::kForward) < Key(scaled, AttentionPass::kForward));
}

TEST(AttentionChoiceTest, AutoLeavesTheRestToOurKernels) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  AttentionShape odd = kShape;
  odd.head_dim = 60;
  AttentionShape empty = kShape;
  empty.seq = 0;
  for (const CudnnAttentionKey& key :
       {Key(kShape, AttentionPass::kForward, DType::kFloat32), Key(odd, AttentionPass::kForward),
        Key(empty, AttentionPass::kBackward)}) {
    const auto workspace = choice.CudnnWorkspace(key, {});
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    EXPECT_FALSE(workspace->has_value());
  }
  EXPECT_EQ(library.made, 0) << "the library was loaded for nothing";

  CudnnAttentionPointers odd_address;
  odd_address.out = reinterpret_cast<void*>(uintptr_t{8});
  const auto unaligned = choice.CudnnWorkspace(Key(kShape, AttentionPass::kForward), odd_address);
  ASSERT_TRUE(unaligned.ok()) << unaligned.status();
  EXPECT_FALSE(unaligned->has_value());

  AttentionChoice none = WithoutLibrary(AttentionBackend::kAuto);
  const auto without = none.CudnnWorkspace(Key(kShape, AttentionPass::kForward), {});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(without->has_value());
}

TEST(AttentionChoiceTest, OtherErrorsOfTheLibraryAreNotSwallowed) {
  Library library;
  library.backward = absl::InternalError("cuDNN: broken");
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  EXPECT_EQ(choice.CudnnWorkspace(Key(kShape, AttentionPass::kBackward), {}).status(),
            library.backward);
}

TEST(AttentionChoiceTest, CudnnByNameIsAnErrorWhereItCannot) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kCudnn, library);
  const absl::Status fp32 =
      choice.CudnnWorkspace(Key(kShape, AttentionPass::kForward, DType::kFloat32), {}).status();
  EXPECT_TRUE(absl::IsUnimplemented(fp32)) << fp32;
  EXPECT_TRUE(absl::StrContains(fp32.message(), "expected bf16 or fp16")) << fp32;
  CudnnAttentionPointers odd_address;
  odd_address.qkv = reinterpret_cast<void*>(uintptr_t{2});
  const absl::Status unaligned =
      choice.CudnnWorkspace(Key(kShape, AttentionPass::kForward), odd_address).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unaligned)) << unaligned;
  AttentionChoice none = WithoutLibrary(AttentionBackend::kCudnn);
  EXPECT_TRUE(absl::IsUnimplemented(
      none.CudnnWorkspace(Key(kShape, AttentionPass::kForward), {}).status()));
}

TEST(AttentionChoiceTest, FlashNeverAsks) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kFlash, library);
  const auto workspace = choice.CudnnWorkspace(Key(kShape, AttentionPass::kForward), {});
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  EXPECT_FALSE(workspace->has_value());
  EXPECT_EQ(choice.Describe(kShape, DType::kBFloat16).value(), "Zeroth's kernels");
  EXPECT_EQ(library.made, 0);
}

// Every plan, and that of each part of a call, is asked for with the option's value.
TEST(AttentionChoiceTest, DeterminismIsWhatTheOptionsSay) {
  for (const bool deterministic : {true, false}) {
    Library library;
    AttentionChoice choice = ChoiceOf({.attention_determinism = deterministic}, library);
    AttentionShape parted = kShape;
    parted.batch = 129;
    ASSERT_TRUE(choice.CudnnWorkspace(Key(parted, AttentionPass::kBackward), {}).ok());
    EXPECT_EQ(library.planned.size(), 3);  // the whole, a part, and the rest
    for (const CudnnAttentionKey& key : library.planned) {
      EXPECT_EQ(key.deterministic, deterministic);
    }
    EXPECT_EQ(choice.Describe(kShape, DType::kBFloat16).value(),
              deterministic ? "cuDNN 9.99.0" : "cuDNN 9.99.0, backward not deterministic");
  }
}

TEST(AttentionChoiceTest, DescriptionsSayWhatWillBe) {
  {
    Library library;
    AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
    EXPECT_EQ(choice.Describe(kShape, DType::kBFloat16).value(), "cuDNN 9.99.0");
    AttentionShape wide = kShape;
    wide.batch = 128;
    EXPECT_EQ(choice.Describe(wide, DType::kBFloat16).value(),
              "cuDNN 9.99.0, backward of 85 sequences at a time");
    EXPECT_EQ(choice.Describe(kShape, DType::kFloat32).value(),
              "Zeroth's kernels (cuDNN: it has no attention in fp32, expected bf16 or fp16)");
  }
  {
    Library library;
    library.backward = absl::UnimplementedError("cuDNN: no engine");
    AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
    EXPECT_EQ(choice.Describe(kShape, DType::kFloat16).value(),
              "cuDNN 9.99.0 forward, Zeroth's kernels backward (cuDNN: no engine)");
    AttentionChoice named = ChoiceOf(AttentionBackend::kCudnn, library);
    EXPECT_EQ(named.Describe(kShape, DType::kFloat16).status(), library.backward);
  }
  AttentionChoice none = WithoutLibrary(AttentionBackend::kAuto);
  EXPECT_EQ(none.Describe(kShape, DType::kBFloat16).value(),
            "Zeroth's kernels (cuDNN: not found: libcudnn.so.9)");
}

TEST(AttentionChoiceTest, OneSequenceTooLongForTheWorkspaceGoesByHeads) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  EXPECT_EQ(choice.Describe({2, 16384, 32, 8, 128}, DType::kBFloat16).value(),
            "cuDNN 9.99.0, backward of 1 of 8 heads of keys at a time");
  EXPECT_EQ(choice.Describe({1, 8192, 32, 8, 128}, DType::kBFloat16).value(),
            "cuDNN 9.99.0, backward of 4 of 8 heads of keys at a time");
}

TEST(AttentionChoiceTest, OneHeadTooLongForTheWorkspaceIsOurs) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  const AttentionShape longer = {2, 32768, 32, 8, 128};
  const auto workspace = choice.CudnnWorkspace(Key(longer, AttentionPass::kBackward), {});
  ASSERT_TRUE(workspace.ok()) << workspace.status();
  EXPECT_FALSE(workspace->has_value());
  const std::string words = choice.Describe(longer, DType::kBFloat16).value();
  EXPECT_TRUE(absl::StrContains(words,
                                "needs 8192 MiB of workspace for one of a sequence's 8 "
                                "heads of keys"))
      << words;
}

// Every head of every sequence goes through once, at its own address, in workspace within the
// limit.
TEST(AttentionChoiceTest, PartsCoverTheBatch) {
  std::minstd_rand random(7);
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  int in_parts = 0;
  bool by_heads = false;
  for (int round = 0; round < 200; ++round) {
    AttentionShape shape;
    shape.batch = pick(70);
    shape.seq = pick(10000);
    shape.kv_heads = pick(4);
    shape.heads = shape.kv_heads * pick(6);
    shape.head_dim = 8 * pick(16);
    Library library;
    AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
    const CudnnAttentionKey key = Key(shape, AttentionPass::kBackward, DType::kFloat16);
    // These addresses are only computed with, never read.
    CudnnAttentionPointers pointers;
    pointers.qkv = reinterpret_cast<const void*>(uintptr_t{1} << 40);
    pointers.out = reinterpret_cast<void*>(uintptr_t{2} << 40);
    pointers.lse = reinterpret_cast<float*>(uintptr_t{3} << 40);
    pointers.dout = reinterpret_cast<const void*>(uintptr_t{4} << 40);
    pointers.dqkv = reinterpret_cast<void*>(uintptr_t{5} << 40);
    const auto workspace = choice.CudnnWorkspace(key, pointers);
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    if (!workspace->has_value()) continue;  // one head is too long
    EXPECT_LE(**workspace, kMostCudnnWorkspace);
    ASSERT_EQ(choice.EnqueueCudnn(key, pointers, nullptr), absl::OkStatus());
    int64_t sequence = 0;
    int64_t kv_head = 0;
    for (const Library::Enqueued& part : library.enqueued) {
      const int64_t tokens = sequence * shape.seq;
      const auto distance = [](const void* from, const void* to) {
        return static_cast<const char*>(to) - static_cast<const char*>(from);
      };
      EXPECT_EQ(distance(pointers.qkv, part.pointers.qkv), tokens * shape.packed_dim() * 2);
      EXPECT_EQ(distance(pointers.dqkv, part.pointers.dqkv), tokens * shape.packed_dim() * 2);
      EXPECT_EQ(distance(pointers.out, part.pointers.out),
                tokens * shape.heads * shape.head_dim * 2);
      EXPECT_EQ(distance(pointers.dout, part.pointers.dout),
                tokens * shape.heads * shape.head_dim * 2);
      EXPECT_EQ(distance(pointers.lse, part.pointers.lse), tokens * shape.heads * 4);
      EXPECT_EQ(part.pointers.first_kv_head, kv_head);
      EXPECT_EQ(part.pointers.first_head, kv_head * shape.heads / shape.kv_heads);
      EXPECT_EQ(part.key.all_heads, shape.heads);
      EXPECT_EQ(part.key.all_kv_heads, shape.kv_heads);
      kv_head += part.key.shape.kv_heads;
      if (kv_head < shape.kv_heads) {
        by_heads = true;
        EXPECT_EQ(part.key.shape.batch, 1);
        continue;
      }
      EXPECT_EQ(kv_head, shape.kv_heads);
      kv_head = 0;
      sequence += part.key.shape.batch;
    }
    EXPECT_EQ(sequence, shape.batch);
    in_parts += library.enqueued.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(in_parts, 20);
  EXPECT_TRUE(by_heads);
}

// The plans of the latest keys are kept; a key that was evicted is asked for again.
TEST(AttentionChoiceTest, PlansAreForgottenInOrder) {
  Library library;
  AttentionChoice choice = ChoiceOf(AttentionBackend::kAuto, library);
  const auto ask = [&](int64_t seq) {
    AttentionShape shape = kShape;
    shape.seq = seq;
    ASSERT_TRUE(choice.CudnnWorkspace(Key(shape, AttentionPass::kForward), {}).ok());
  };
  const auto most = static_cast<int64_t>(AttentionChoice::kMostKeys);
  for (int64_t seq = 1; seq <= most; ++seq) ask(seq);
  ask(1);         // the oldest becomes the latest
  ask(most + 1);  // evicts 2
  EXPECT_EQ(library.planned.size(), AttentionChoice::kMostKeys + 1);
  ask(1);
  EXPECT_EQ(library.planned.size(), AttentionChoice::kMostKeys + 1);
  ask(2);
  EXPECT_EQ(library.planned.size(), AttentionChoice::kMostKeys + 2);
}

}  // namespace
}  // namespace zeroth::cuda
