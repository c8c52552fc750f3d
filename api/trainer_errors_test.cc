// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes each collective of a step fail in turn, on all ranks or on one. The trainer must then
// continue from the state before the step, with the same bits, or report that it cannot.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"

namespace zeroth {
namespace {

constexpr char kInjected[] = "the cable is unplugged";

// The call of a rank that fails, counted over all its communicators.
struct Faults {
  int64_t calls = 0;
  int64_t fail_at = -1;
  // Calls of this label are not among them; they fail if `fails_spared`.
  std::string spared = "loss";
  bool fails_spared = false;

  absl::Status Next(absl::string_view label) {
    const bool fails = label == spared ? fails_spared : calls++ == fail_at;
    return fails ? absl::UnavailableError(absl::StrCat(kInjected, ", at '", label, "'"))
                 : absl::OkStatus();
  }
};

// A communicator whose calls fail, without being made, at their turn.
class FaultyCommunicator : public Communicator {
 public:
  FaultyCommunicator(Communicator& inner, Faults& faults) : inner_(&inner), faults_(faults) {}
  FaultyCommunicator(std::unique_ptr<Communicator> inner, Faults& faults)
      : owned_(std::move(inner)), inner_(owned_.get()), faults_(faults) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }

  absl::Status AllGather(BufferView send, BufferView recv, Stream& stream,
                         absl::string_view label) override {
    ZEROTH_RETURN_IF_ERROR(faults_.Next(label));
    return inner_->AllGather(send, recv, stream, label);
  }
  absl::Status ReduceScatter(BufferView send, BufferView recv, ReduceOp op, Stream& stream,
                             absl::string_view label, bool accumulate) override {
    ZEROTH_RETURN_IF_ERROR(faults_.Next(label));
    return inner_->ReduceScatter(send, recv, op, stream, label, accumulate);
  }
  absl::Status AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                         absl::string_view label) override {
    ZEROTH_RETURN_IF_ERROR(faults_.Next(label));
    return inner_->AllReduce(buffer, op, stream, label);
  }
  absl::Status AllToAll(BufferView send, BufferView recv, Stream& stream, absl::string_view label,
                        const AllToAllCounts& counts) override {
    ZEROTH_RETURN_IF_ERROR(faults_.Next(label));
    return inner_->AllToAll(send, recv, stream, label, counts);
  }
  absl::Status Broadcast(BufferView buffer, int root, Stream& stream,
                         absl::string_view label) override {
    ZEROTH_RETURN_IF_ERROR(faults_.Next(label));
    return inner_->Broadcast(buffer, root, stream, label);
  }
  absl::Status Barrier(Stream& stream, absl::string_view label) override {
    return inner_->Barrier(stream, label);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, inner_->Split(color, key));
    if (group == nullptr) return nullptr;
    return std::make_unique<FaultyCommunicator>(std::move(group), faults_);
  }
  void Abort(const absl::Status& reason) override { inner_->Abort(reason); }
  absl::Status status() const override { return inner_->status(); }
  const CommStats& stats() const override { return inner_->stats(); }
  CommStats& stats() override { return inner_->stats(); }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
  Faults& faults_;
};

struct Case {
  std::string name;
  std::string strategy;
  int world_size = 2;
  int shard_size = 0;
  bool over_world = false;
  int micro_batches = 1;
  bool sync_every = true;
  DType dtype = DType::kFloat32;
  bool has_teacher = false;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const Case kCases[] = {
    {"no_shard", "no_shard"},
    {"shard_optimizer", "shard_optimizer"},
    {"shard_grad_op", "shard_grad_op"},
    {"full_shard", "full_shard"},
    {"full_shard_micro_batches", "full_shard", 2, 0, false, 2},
    {"full_shard_synced_once", "full_shard", 2, 0, false, 2, false, DType::kBFloat16},
    {"no_shard_micro_batches", "no_shard", 2, 0, false, 2, true, DType::kBFloat16},
    {"hybrid_shard", "hybrid_shard", 4, 2, false, 1, true, DType::kBFloat16},
    {"hybrid_shard_over_world", "hybrid_shard", 4, 2, true, 2},
    {"teacher_full_shard", "full_shard", 2, 0, false, 1, true, DType::kFloat32, true},
    {"teacher_hybrid_shard_over_world", "hybrid_shard", 4, 2, true, 2, true, DType::kBFloat16,
     true},
};

std::vector<Batch> MicroBatches(int rank, int step, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    Batch batch;
    batch.batch = 2;
    batch.seq = 3;
    for (int token = 0; token < 6; ++token) {
      batch.inputs.push_back((7 * token + 5 * rank + 3 * i + 11 * step) % 13);
      batch.targets.push_back((5 * token + 2 * rank + i + 3 * step) % 13);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

nlohmann::json Config(int64_t vocabulary = 13) {
  return {{"model_type", "gpt2"},
          {"vocab_size", vocabulary},
          {"n_positions", 8},
          {"n_embd", 16},
          {"n_layer", 2},
          {"n_head", 2},
          {"layer_norm_epsilon", 1e-5}};
}

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildModel(int64_t vocabulary = 13,
                                                          bool is_frozen = false) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(Config(vocabulary)));
  for (Parameter* parameter : model->Parameters()) parameter->set_requires_grad(!is_frozen);
  return model;
}

absl::Status RunTrainer(const Case& setup, Communicator& world, Faults& faults,
                        const std::function<absl::Status(Trainer& trainer, Device& device)>& body) {
  FaultyCommunicator faulty(world, faults);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel());
  TrainerOptions options;
  options.sharding.strategy = setup.strategy;
  options.sharding.strategy_options.shard_size = setup.shard_size;
  options.sharding.strategy_options.shard_optimizer_over_world = setup.over_world;
  options.sharding.mixed_precision = {setup.dtype, setup.dtype};
  options.sync_every_micro_batch = setup.sync_every;
  options.ema_decay = 0.5;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(faulty, *device));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(*rank, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(/*seed=*/3));
  if (setup.has_teacher) {
    ZEROTH_ASSIGN_OR_RETURN(model, BuildModel(13, /*is_frozen=*/true));
    options.ema_decay = 0;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> teacher,
                            Trainer::Create(*rank, std::move(model), options));
    ZEROTH_RETURN_IF_ERROR(teacher->sharding().Initialize(/*seed=*/4));
    ZEROTH_RETURN_IF_ERROR(trainer->SetTeacher(std::move(teacher)));
  }
  return body(*trainer, *device);
}

// Losses and norms of steps, then all weights.
struct Trace {
  std::vector<float> numbers;
  absl::Status Step(Trainer& trainer, const Case& setup, int step) {
    ZEROTH_ASSIGN_OR_RETURN(
        const StepResult result,
        trainer.Step(MicroBatches(trainer.world().rank(), step, setup.micro_batches), 1e-2));
    numbers.push_back(result.loss);
    numbers.push_back(static_cast<float>(result.grad_norm));
    return absl::OkStatus();
  }
  absl::Status Weights(Trainer& trainer) {
    return trainer.sharding().VisitFull(
        [&](const Parameter&, int64_t, absl::Span<const float> values) {
          numbers.insert(numbers.end(), values.begin(), values.end());
          return absl::OkStatus();
        });
  }
  bool operator==(const Trace& other) const {
    return numbers.size() == other.numbers.size() &&
           std::memcmp(numbers.data(), other.numbers.data(), numbers.size() * sizeof(float)) == 0;
  }
};

absl::Status Expect(bool condition, absl::string_view what) {
  return condition ? absl::OkStatus() : absl::InternalError(absl::StrCat("not so: ", what));
}

// All further calls compute nothing, and report the reason.
absl::Status ExpectCannotGoOn(Trainer& trainer, const Case& setup, absl::string_view reason) {
  ZEROTH_RETURN_IF_ERROR(Expect(!trainer.status().ok(), "the trainer is broken"));
  const std::vector<Batch> batches = MicroBatches(0, 0, setup.micro_batches);
  const std::vector<int32_t> tokens = {1, 2, 3};
  for (const absl::Status& status :
       {trainer.Step(batches, 1e-2).status(), trainer.ForwardBackward(batches).status(),
        trainer.Evaluate(batches).status(), trainer.Logits(tokens, 0).status()}) {
    ZEROTH_RETURN_IF_ERROR(Expect(absl::IsFailedPrecondition(status) &&
                                      absl::StrContains(status.message(), "cannot continue") &&
                                      absl::StrContains(status.message(), reason),
                                  status.ToString()));
  }
  return absl::OkStatus();
}

class TrainerErrorsTest : public testing::TestWithParam<Case> {};

TEST_P(TrainerErrorsTest, AfterAnyFailedCollectiveItContinuesOrSaysThatItCannot) {
  const Case& setup = GetParam();
  std::vector<Trace> undisturbed(static_cast<size_t>(setup.world_size));
  const absl::Status reference =
      RunLocalRanks(setup.world_size, [&](Communicator& world) -> absl::Status {
        Faults faults;
        return RunTrainer(setup, world, faults, [&](Trainer& trainer, Device&) -> absl::Status {
          Trace& trace = undisturbed[static_cast<size_t>(world.rank())];
          for (int step = 0; step < 3; ++step) {
            ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, step));
          }
          return trace.Weights(trainer);
        });
      });
  ASSERT_TRUE(reference.ok()) << reference;

  std::vector<int64_t> failed(static_cast<size_t>(setup.world_size));
  const absl::Status status =
      RunLocalRanks(setup.world_size, [&](Communicator& world) -> absl::Status {
        Faults faults;
        return RunTrainer(
            setup, world, faults, [&](Trainer& trainer, Device& device) -> absl::Status {
              Trace trace;
              ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, 0));
              // Step 1 and an evaluation fail at each of their calls, until none is left to fail.
              for (int64_t fail_at = 0;; ++fail_at) {
                faults.fail_at = faults.calls + fail_at;
                const absl::Status step = trace.Step(trainer, setup, 1);
                if (step.ok()) break;
                ++failed[static_cast<size_t>(world.rank())];
                ZEROTH_RETURN_IF_ERROR(
                    Expect(absl::StrContains(step.message(), kInjected),
                           absl::StrCat("call ", fail_at, ": ", step.ToString())));
                ZEROTH_RETURN_IF_ERROR(trainer.status());
                const MemoryStats memory = device.allocator().stats();
                ZEROTH_RETURN_IF_ERROR(
                    Expect(memory[MemoryCategory::kGatheredParameters].current_bytes == 0 &&
                               memory[MemoryCategory::kGradients].current_bytes == 0,
                           "nothing of the step is left"));
                for (const Unit* unit : trainer.sharding().units()) {
                  ZEROTH_RETURN_IF_ERROR(unit->ExpectState(UnitState::kSharded, "rest"));
                  ZEROTH_RETURN_IF_ERROR(unit->ExpectGradientState(GradientState::kNone, "rest"));
                }
              }
              ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
              const std::vector<Batch> batches = MicroBatches(world.rank(), 7, setup.micro_batches);
              for (int64_t fail_at = 0;; ++fail_at) {
                faults.fail_at = faults.calls + fail_at;
                if (trainer.Evaluate(batches).ok()) break;
                ZEROTH_RETURN_IF_ERROR(trainer.status());
              }
              ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
              faults.fail_at = -1;
              ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, 2));
              ZEROTH_RETURN_IF_ERROR(trace.Weights(trainer));
              ZEROTH_RETURN_IF_ERROR(Expect(trace == undisturbed[static_cast<size_t>(world.rank())],
                                            "the bits are the same"));
              ZEROTH_RETURN_IF_ERROR(
                  Expect(trainer.counts().optimizer_steps == 3, "three updates"));
              // The exchange of losses comes after the update.
              faults.fails_spared = true;
              const absl::Status last = trace.Step(trainer, setup, 3);
              ZEROTH_RETURN_IF_ERROR(
                  Expect(absl::StrContains(last.message(), kInjected), last.ToString()));
              return ExpectCannotGoOn(trainer, setup, kInjected);
            });
      });
  EXPECT_TRUE(status.ok()) << status;
  // A reduction for each unit at least, and the gathers of what is sharded.
  for (const int64_t times : failed) EXPECT_GE(times, 3);
}

// If a rank fails alone and gives up, the others fail with its error.
TEST_P(TrainerErrorsTest, IfOneRankFailsTheOthersSayThatTheyCannotContinue) {
  const Case& setup = GetParam();
  int64_t fail_at = 0;
  for (;; fail_at += 2) {
    bool has_failed = false;
    const absl::Status status =
        RunLocalRanks(setup.world_size, [&](Communicator& world) -> absl::Status {
          Faults faults;
          return RunTrainer(setup, world, faults, [&](Trainer& trainer, Device&) -> absl::Status {
            Trace trace;
            ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, 0));
            if (world.rank() == 1) faults.fail_at = faults.calls + fail_at;
            absl::Status step;
            for (int i = 1; i < 3 && step.ok(); ++i) step = trace.Step(trainer, setup, i);
            if (world.rank() == 1) {
              has_failed = !step.ok();
              return step;
            }
            if (!step.ok()) ZEROTH_RETURN_IF_ERROR(ExpectCannotGoOn(trainer, setup, "rank"));
            return step;
          });
        });
    if (!has_failed) break;
    EXPECT_TRUE(absl::IsUnavailable(status) && absl::StrContains(status.message(), kInjected))
        << fail_at << ": " << status;
  }
  EXPECT_GT(fail_at, 2) << "nothing has failed";
}

TEST_P(TrainerErrorsTest, ABatchOfAnotherSizeThanItSaysIsRefused) {
  const Case& setup = GetParam();
  const absl::Status status =
      RunLocalRanks(setup.world_size, [&](Communicator& world) -> absl::Status {
        Faults faults;
        return RunTrainer(setup, world, faults, [&](Trainer& trainer, Device&) -> absl::Status {
          Batch batch;
          batch.batch = 2;
          batch.seq = 4;
          batch.inputs = {1, 2, 3};
          batch.targets = std::vector<int32_t>(8, 1);
          const std::vector<Batch> batches(static_cast<size_t>(setup.micro_batches), batch);
          EXPECT_TRUE(absl::IsInvalidArgument(trainer.Step(batches, 1e-3).status()));
          EXPECT_TRUE(absl::IsInvalidArgument(trainer.Evaluate(batches).status()));
          return trainer.status();
        });
      });
  EXPECT_TRUE(status.ok()) << status;
}

// A rank that drops its bad batch and continues would otherwise be one step behind the others,
// whose collectives match its own. The ranks wait for each other in different groups until the
// timeout.
TEST_P(TrainerErrorsTest, ABadBatchOnOneRankIsAnErrorOnAllRanks) {
  const Case& setup = GetParam();
  std::vector<absl::Status> errors(static_cast<size_t>(setup.world_size));
  LaunchOptions launch;
  launch.world_size = setup.world_size;
  launch.timeout = absl::Seconds(2);
  RunLocalRanks(launch, [&](Communicator& world) -> absl::Status {
    Faults faults;
    absl::Status& error = errors[static_cast<size_t>(world.rank())];
    error = RunTrainer(setup, world, faults, [&](Trainer& trainer, Device&) -> absl::Status {
      Trace trace;
      ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, 0));
      if (world.rank() == 1) {
        std::vector<Batch> batches = MicroBatches(1, 1, setup.micro_batches);
        batches.back().targets.pop_back();
        EXPECT_TRUE(absl::IsInvalidArgument(trainer.Step(batches, 1e-2).status()));
      }
      for (int step = 1; step < 4; ++step) {
        ZEROTH_RETURN_IF_ERROR(trace.Step(trainer, setup, step));
      }
      return absl::OkStatus();
    });
    return error;
  }).IgnoreError();
  for (const absl::Status& error : errors) EXPECT_FALSE(error.ok());
}

// Returns what SetTeacher says of a teacher of this vocabulary.
absl::Status SetTeacher(const TrainerOptions& options, const TrainerOptions& of_teacher,
                        int64_t vocabulary, bool is_frozen, bool on_other_rank) {
  return RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> other, Rank::Open(world, *device));
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel());
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                            Trainer::Create(*rank, std::move(model), options));
    ZEROTH_ASSIGN_OR_RETURN(model, BuildModel(vocabulary, is_frozen));
    ZEROTH_ASSIGN_OR_RETURN(
        std::unique_ptr<Trainer> teacher,
        Trainer::Create(on_other_rank ? *other : *rank, std::move(model), of_teacher));
    const absl::Status status = trainer->SetTeacher(std::move(teacher));
    EXPECT_EQ(trainer->teacher() != nullptr, status.ok());
    return status;
  });
}

TEST(TrainerTeacherTest, OnlyOneLikeTheStudentIsTaken) {
  const TrainerOptions options;
  const absl::Status taken = SetTeacher(options, options, 13, true, false);
  EXPECT_TRUE(taken.ok()) << taken;
  const auto expect_refused = [](const absl::Status& status, const char* words) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  expect_refused(SetTeacher(options, options, 14, true, false),
                 "a vocabulary of 14 tokens, expected the student's 13");
  expect_refused(SetTeacher(options, options, 13, false, false), "takes gradients");
  expect_refused(SetTeacher(options, options, 13, true, true), "a teacher of another rank");
  TrainerOptions divided;
  divided.tensor.size = 2;
  expect_refused(SetTeacher(options, divided, 13, true, false),
                 "a teacher on 2 tensor ranks, expected it divided as the student, on 1");
  TrainerOptions of_pairs;
  of_pairs.preference = PreferenceOptions();
  expect_refused(SetTeacher(of_pairs, options, 13, true, false), "preference is set");
}

// Says what a step of one preference pair without a reference says, of a model with adapters that
// trains `saved` beside them.
absl::Status StepWithoutReference(const std::vector<std::string>& saved) {
  return RunLocalRanks(1, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
    ModelOptions of_model;
    of_model.lora.rank = 2;
    of_model.lora.targets = {"attn.c_attn"};
    of_model.lora.modules_to_save = saved;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                            ModelRegistry::Create(Config(), of_model));
    TrainerOptions options;
    options.preference = PreferenceOptions();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                            Trainer::Create(*rank, std::move(model), options));
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(/*seed=*/3));
    Batch batch = MicroBatches(0, 0, 1)[0];
    batch.pairs = {0, 3, 6};
    batch.counted = 1;
    return trainer->Step({&batch, 1}, 1e-2).status();
  });
}

TEST(TrainerPreferenceTest, AdaptersAloneReplaceAReference) {
  EXPECT_TRUE(StepWithoutReference({}).ok()) << StepWithoutReference({});
  const absl::Status refused = StepWithoutReference({"wte"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "0 losses of a reference, expected 6"))
      << refused;
}

INSTANTIATE_TEST_SUITE_P(Strategies, TrainerErrorsTest, testing::ValuesIn(kCases),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace zeroth
