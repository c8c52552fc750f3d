// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares distillation with torch and TRL in float64 (tests/testdata/distillation), from files of
// a teacher's likeliest tokens and from a teacher that runs beside the student. Also tests every
// layout, and the options that are refused.

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/teacher_topk.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/options/options.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/tests/cli/trainer_process.h"
#include "zeroth/tests/finetuning/tiny_run.h"
#include "zeroth/tools/evaluate/topk.h"
#include "zeroth/tools/model/loaded_model.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = "tests/testdata/distillation/text.txt";
constexpr int64_t kLength = 32;
constexpr int64_t kRows = 4;  // of a step
constexpr int64_t kVocabulary = 257;

absl::StatusOr<std::shared_ptr<const Mixture>> OpenText(const std::string& path) {
  static const ByteTokenizer* const tokenizer = new ByteTokenizer;
  DataOptions options;
  options.tokenizer = tokenizer;
  options.vocab_size = kVocabulary;
  return OpenMixture(path, options);
}

absl::Status WriteTeacher(const std::string& directory, const Mixture& data, int64_t k) {
  LoadModelOptions load;
  load.model = "tests/testdata/mistral_tiny";
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> teacher, LoadedModel::Open(load));
  TopKOptions options;
  options.directory = directory;
  options.teacher = load.model;
  options.k = k;
  options.vocab_size = kVocabulary;
  options.loader.seq_len = kLength;
  return WriteTopK(data, options, [&](const Batch& batch) { return teacher->Logits(batch); })
      .status();
}

struct Record {
  std::vector<double> losses;
  std::vector<double> norms;
  NamedValues weights;
  bool operator==(const Record&) const = default;
};

class DistillationTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const absl::StatusOr<nlohmann::json> all =
        ReadJsonFile("tests/testdata/distillation/expected.json");
    ASSERT_TRUE(all.ok()) << all.status();
    auto data = OpenText(kText);
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);
    if (!all->contains(GetParam())) {
      const absl::StatusOr<nlohmann::json> online =
          ReadJsonFile("tests/testdata/distillation/expected_online.json");
      ASSERT_TRUE(online.ok()) << online.status();
      expected_ = online->at(GetParam());
      return;
    }
    expected_ = (*all)[GetParam()];
    const std::string directory = directory_.File("teacher");
    const absl::Status written = WriteTeacher(directory, *data_, expected_["k"].get<int64_t>());
    ASSERT_TRUE(written.ok()) << written;
    auto teacher = TeacherTopK::Open(directory, kVocabulary);
    ASSERT_TRUE(teacher.ok()) << teacher.status();
    teacher_ = *std::move(teacher);
  }

  absl::StatusOr<Record> Train(const Layout& layout) const {
    TrainOptions options;
    options.init_from = "tests/testdata/llama_tiny";
    if (expected_.value("lora", false)) options.init_adapter = "tests/testdata/distillation/lora";
    ZEROTH_ASSIGN_OR_RETURN(options, WithInitAdapter(options));
    ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
    TrainOptions of_teacher;
    of_teacher.init_from = "tests/testdata/mistral_tiny";
    ZEROTH_ASSIGN_OR_RETURN(const ModelSource teacher_source, ModelSource::Open(of_teacher));
    of_teacher.strategy = layout.strategy;
    of_teacher.world_size = layout.world_size;
    of_teacher.shard_size = layout.shard_size;
    of_teacher.deterministic_batch = layout.deterministic_batch;
    of_teacher.tensor_parallel = layout.tensor.size;
    of_teacher.sequence_parallel = layout.tensor.sequence;
    of_teacher.deterministic_tensor = layout.tensor.deterministic;
    if (layout.offload) of_teacher.offload = "all";
    Record record;
    Collector weights;
    const auto body = [&](Communicator& world) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                              DeviceRegistry::Create("cpu", DeviceOptions()));
      device->BindThread();
      ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
      TrainerOptions trainer_options = layout.Options();
      trainer_options.optimizer_options.weight_decay = 0;
      trainer_options.distillation = {
          expected_["alpha"].get<float>(), expected_["temperature"].get<float>(),
          expected_.value("beta", 0.0) == 1.0 ? Divergence::kReverse : Divergence::kForward};
      ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
      ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                              Trainer::Create(*rank, std::move(model), trainer_options));
      if (teacher_ == nullptr) {
        ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> teacher,
                                LoadFrozen(*rank, teacher_source, of_teacher, "teacher"));
        ZEROTH_RETURN_IF_ERROR(trainer->SetTeacher(std::move(teacher)));
      }
      ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(source.Reader(/*seed=*/0)));
      LoaderOptions rows = layout.Loader(world, kRows, kLength);
      rows.teacher = teacher_;
      ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(data_, rows));
      const int64_t micro_batches = layout.MicroBatches(kRows);
      for (size_t step = 0; step < expected_["loss"].size(); ++step) {
        ZEROTH_ASSIGN_OR_RETURN(
            const std::vector<Batch> batches,
            loader.LoadMany(static_cast<int64_t>(step) * micro_batches, micro_batches));
        ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                                trainer->Step(batches, expected_["lr"].get<double>()));
        if (world.rank() != 0) continue;
        record.losses.push_back(result.loss);
        record.norms.push_back(result.grad_norm);
      }
      return weights.PutWeights(trainer->sharding());
    };
    ZEROTH_RETURN_IF_ERROR(RunLocalRanks(layout.world_size, body));
    record.weights = weights.values();
    return record;
  }

  void ExpectReference(const Record& record) const {
    ASSERT_EQ(record.losses.size(), 3u);
    for (size_t step = 0; step < record.losses.size(); ++step) {
      SCOPED_TRACE(step);
      const auto loss = expected_["loss"][step].get<double>();
      const auto norm = expected_["grad_norm"][step].get<double>();
      EXPECT_NEAR(record.losses[step], loss, 2e-5 * loss);
      EXPECT_NEAR(record.norms[step], norm, 1e-4 * norm);
    }
  }

  const TemporaryDirectory directory_;
  nlohmann::json expected_;
  std::shared_ptr<const Mixture> data_;
  std::shared_ptr<const TeacherTopK> teacher_;  // null: computed beside the student
};

TEST_P(DistillationTest, LossesAndNormsAreTheReferences) {
  for (const int world_size : {1, 2, 4}) {
    SCOPED_TRACE(world_size);
    const absl::StatusOr<Record> record = Train({"full_shard", world_size});
    ASSERT_TRUE(record.ok()) << record.status();
    ExpectReference(*record);
  }
  for (const bool every : {true, false}) {
    Layout accumulating{"full_shard", 2};
    accumulating.micro_batches = 2;
    accumulating.sync_every_micro_batch = every;
    const absl::StatusOr<Record> record = Train(accumulating);
    ASSERT_TRUE(record.ok()) << record.status();
    ExpectReference(*record);
  }
  Layout in_two{"full_shard", 4};
  in_two.tensor.size = 2;
  in_two.tensor.sequence = true;
  const absl::StatusOr<Record> record = Train(in_two);
  ASSERT_TRUE(record.ok()) << record.status();
  ExpectReference(*record);
}

TEST_P(DistillationTest, BitsDoNotDependOnTheLayout) {
  ExpectBitsOfOneRank(
      kRows, [&](const Layout& layout) { return Train(layout); },
      [&](const Record& record) { ExpectReference(record); },
      [](const Record& record, const Record& expected) { return record == expected; });
}

TEST_P(DistillationTest, BitsWithoutTensorRanksDoNotDependOnTheLayout) {
  Layout alone;
  alone.deterministic_batch = kRows;
  const absl::StatusOr<Record> expected = Train(alone);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (Layout layout : {Layout{"full_shard", 2}, Layout{"shard_grad_op", 4}}) {
    SCOPED_TRACE(layout.strategy);
    layout.deterministic_batch = kRows;
    layout.recompute = ActivationCheckpointing::kBlock;
    layout.offload = layout.strategy == "full_shard";
    const absl::StatusOr<Record> record = Train(layout);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(*record == *expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, DistillationTest,
                         ::testing::Values("mixed", "warm", "teacher", "all"));
INSTANTIATE_TEST_SUITE_P(Online, DistillationTest,
                         ::testing::Values("forward", "forward_warm", "reverse", "reverse_only",
                                           "forward_lora", "reverse_lora"));

// An epoch in random order has the teacher's rows beside its own tokens.
TEST(TeacherTopKTest, FollowsShuffledDataAndRefusesOthers) {
  const TemporaryDirectory directory;
  const auto data = OpenText(kText);
  ASSERT_TRUE(data.ok()) << data.status();
  const std::string path = directory.File("teacher");
  ASSERT_TRUE(WriteTeacher(path, **data, 3).ok());
  EXPECT_EQ(WriteTeacher(path, **data, 3).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(WriteTeacher(directory.File("most"), **data, kVocabulary + 1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(directory.List(), std::vector<std::string>{"teacher"});
  const auto teacher = TeacherTopK::Open(path, kVocabulary);
  ASSERT_TRUE(teacher.ok()) << teacher.status();
  LoaderOptions options;
  options.seq_len = kLength;
  options.teacher = *teacher;
  const auto loader = DataLoader::Create(*data, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (int64_t step = 0; step < 30; ++step) {
    const absl::StatusOr<Batch> batch = loader->Load(step);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->teacher_ids.size(), static_cast<size_t>(3 * kLength));
  }

  const auto expect_refused = [&](const absl::Status& status, const char* words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(words), std::string::npos) << status;
  };
  std::string text = ReadTestFile(kText);
  text[100] = '#';
  const auto others = OpenText(directory.Write("others.txt", text));
  ASSERT_TRUE(others.ok()) << others.status();
  const auto wrong = DataLoader::Create(*others, options);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  absl::Status status;
  for (int64_t step = 0; step < 12 && status.ok(); ++step) status = wrong->Load(step).status();
  expect_refused(status, "row 3 was written for other tokens or documents");
  const auto shorter = OpenText(directory.Write("shorter.txt", text.substr(0, 200)));
  ASSERT_TRUE(shorter.ok()) << shorter.status();
  expect_refused(DataLoader::Create(*shorter, options).status(), "written for 12 sequences");
  options.seq_len = kLength / 2;
  expect_refused(DataLoader::Create(*data, options).status(), "written with seq_len 32");

  // A vocabulary that lacks some of the teacher's tokens.
  const auto few = TeacherTopK::Open(path, 40);
  ASSERT_TRUE(few.ok()) << few.status();
  options.seq_len = kLength;
  options.teacher = *few;
  const auto of_few = DataLoader::Create(*data, options);
  ASSERT_TRUE(of_few.ok()) << of_few.status();
  expect_refused(of_few->Load(0).status(), "the model's vocabulary of 40");

  EXPECT_EQ(TeacherTopK::Open(directory.File("none"), 9).status().code(),
            absl::StatusCode::kNotFound);
  const std::string rows = ReadTestFile(absl::StrCat(path, "/source-0.topk"));
  std::string flipped = rows;
  flipped[sizeof(uint64_t) + static_cast<size_t>(kLength) * 3 * sizeof(int32_t)] ^= 1;
  directory.Write("teacher/source-0.topk", flipped);
  const auto damaged = TeacherTopK::Open(path, kVocabulary);
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  options.teacher = *damaged;
  options.shuffle = false;
  const auto of_damaged = DataLoader::Create(*data, options);
  ASSERT_TRUE(of_damaged.ok()) << of_damaged.status();
  expect_refused(of_damaged->Load(0).status(), "or has changed since");
  directory.Write("teacher/source-0.topk", rows.substr(0, rows.size() - 1));
  expect_refused(TeacherTopK::Open(path, kVocabulary).status(), "expected 12 rows");
  directory.Write("teacher/topk.json", "{\"format\": 1, \"k\": 0}");
  expect_refused(TeacherTopK::Open(path, kVocabulary).status(), "out of range");
}

TEST(TeacherTopKTest, TheProgramsWorkTogether) {
  const fs::path scratch = Scratch();
  const std::string data = fs::absolute(kText);
  const auto run = [&](Flags flags, const char* log, const std::string& program) {
    flags.push_back(absl::StrCat("--data=", data));
    flags.push_back("--seq_len=32");
    const int code = Wait(Start(flags, scratch / log, "", {}, program));
    return Outcome{code, Logs(scratch / log), Read(ErrorLog(scratch / log))};
  };
  const std::string topk = scratch / "topk";
  const Outcome written =
      run({absl::StrCat("--model=", fs::absolute("tests/testdata/mistral_tiny").string()),
           absl::StrCat("--write_topk=", topk), "--topk=4"},
          "evaluate.log", "tools/evaluate/evaluate");
  ASSERT_EQ(written.exit_code, 0) << written.output;
  EXPECT_THAT(written.output, HasSubstr("4 likeliest of each token in 12 sequences of 32"));
  const auto train = [&](const std::string& out, const Flags& more) {
    Flags flags = {absl::StrCat("--init_from=", fs::absolute("tests/testdata/llama_tiny").string()),
                   "--objective=distill",
                   absl::StrCat("--teacher_topk=", topk),
                   absl::StrCat("--out=", (scratch / out).string()),
                   absl::StrCat("--eval_data=", data),
                   "--eval_every=2",
                   "--steps=4",
                   "--batch_size=1",
                   "--deterministic_batch=4",
                   "--lr=1e-3"};
    flags.insert(flags.end(), more.begin(), more.end());
    return run(flags, absl::StrCat(out, ".log").c_str(), "train/train");
  };
  const Outcome alone = train("alone", {"--world_size=1"});
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  const Outcome four = train("four", {"--world_size=4", "--strategy=full_shard"});
  ASSERT_EQ(four.exit_code, 0) << four.output;
  EXPECT_EQ(StepFacts(scratch / "alone"), StepFacts(scratch / "four"));
  EXPECT_EQ(StepFacts(scratch / "alone").size(), 4u);

  const Outcome wrong = train("wrong", {absl::StrCat("--teacher_topk=", topk, "/none")});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.output;
  EXPECT_THAT(wrong.errors, HasSubstr("--teacher_topk: "));
  EXPECT_FALSE(fs::exists(scratch / "wrong"));
  const Outcome lacking = train("lacking", {"--teacher_topk="});
  EXPECT_THAT(lacking.errors, HasSubstr("evaluate --write_topk"));
  const Outcome heavy = train("heavy", {"--distill_alpha=1.5"});
  EXPECT_THAT(heavy.errors, HasSubstr("expected a number from 0 to 1"));
  const Outcome plain = train("plain", {"--objective=next_token"});
  EXPECT_THAT(plain.errors, HasSubstr("only distill has a teacher"));
  const Outcome held_out = train("held_out", {"--eval_fraction=0.1", "--eval_data="});
  EXPECT_THAT(held_out.errors, HasSubstr("the teacher has read all of --data"));
}

// A run of a teacher beside a student on rows of short documents.
struct PackedRun {
  const char* teacher = "tests/testdata/mistral_tiny";
  DistillationOptions distillation{};
  const char* strategy = "full_shard";
  DType dtype = DType::kFloat32;
  bool has_fp32_masters = false;  // of the teacher, which has them of its computation by default
  double loss_scale = 0;          // a fixed one
  int world_size = 2;
  int64_t shard_size = 0;
  bool over_world = false;  // TrainOptions::shard_optimizer_over_world
  int64_t micro_batches = 1;
};

struct PackedRecord {
  std::vector<double> losses;
  std::vector<double> norms;
  NamedValues weights;
  double loss_within_documents = 0;  // of the next token, at first
  double loss_within_rows = 0;
  std::vector<int64_t> teacher_gathers;  // of rank 0 in the last step: the bytes that each sent
};

absl::StatusOr<PackedRecord> TrainPacked(const PackedRun& run) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const Mixture> data, OpenText(kText));
  TrainOptions options;
  options.init_from = "tests/testdata/llama_tiny";
  options.tokenizer = "byte";
  options.strategy = run.strategy;
  options.world_size = run.world_size;
  options.shard_size = run.shard_size;
  options.shard_optimizer_over_world = run.over_world;
  options.param_dtype = run.dtype;
  ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
  TrainOptions of_teacher = options;
  of_teacher.init_from = run.teacher;
  ZEROTH_ASSIGN_OR_RETURN(const ModelSource teacher_source, ModelSource::Open(of_teacher));
  PackedRecord record;
  Collector weights;
  const auto body = [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
    TrainerOptions trainer_options = TrainerOptionsFor(options, nullptr);
    trainer_options.distillation = run.distillation;
    if (run.loss_scale > 0) {
      trainer_options.loss_scaler =
          LossScalerOptions{.initial_scale = run.loss_scale, .dynamic = false};
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                            Trainer::Create(*rank, std::move(model), trainer_options));
    std::unique_ptr<Trainer> teacher;
    if (run.has_fp32_masters) {
      TrainerOptions frozen = FrozenTrainerOptionsFor(of_teacher, "teacher", nullptr);
      frozen.sharding.mixed_precision.master_dtype = DType::kFloat32;
      ZEROTH_ASSIGN_OR_RETURN(model, teacher_source.Build());
      for (Parameter* parameter : model->Parameters()) parameter->set_requires_grad(false);
      ZEROTH_ASSIGN_OR_RETURN(teacher, Trainer::Create(*rank, std::move(model), frozen));
      ZEROTH_RETURN_IF_ERROR(teacher->sharding().Load(teacher_source.Reader(/*seed=*/0)));
    } else {
      ZEROTH_ASSIGN_OR_RETURN(teacher, LoadFrozen(*rank, teacher_source, of_teacher, "teacher"));
    }
    ZEROTH_RETURN_IF_ERROR(trainer->SetTeacher(std::move(teacher)));
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(source.Reader(/*seed=*/0)));
    LoaderOptions rows;
    rows.world_size = world.size();
    rows.rank = world.rank();
    rows.batch_size = 2;
    rows.seq_len = kLength;
    rows.shuffle = false;
    rows.documents = true;
    rows.end_of_text = ' ';  // each word is a document
    ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(data, rows));
    for (int64_t step = 0; step < 3; ++step) {
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> batches,
                              loader.LoadMany(step, run.micro_batches));
      if (step == 0) {
        ZEROTH_ASSIGN_OR_RETURN(const StepResult within, trainer->Evaluate(batches));
        Batch whole = batches[0];
        whole.starts.clear();
        ZEROTH_ASSIGN_OR_RETURN(const StepResult across, trainer->Evaluate(whole));
        if (world.rank() == 0) record.loss_within_documents = within.loss;
        if (world.rank() == 0) record.loss_within_rows = across.loss;
      }
      const std::vector<Communicator*> groups = trainer->teacher()->sharding().communicators();
      for (Communicator* group : groups) group->stats().EnableRecord(step == 2);
      ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches, 1e-3));
      if (world.rank() != 0) continue;
      for (Communicator* group : groups) {
        for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
          if (entry.op != CollectiveOp::kAllGather || !absl::StrContains(entry.label, "teacher ")) {
            continue;
          }
          record.teacher_gathers.push_back(entry.bytes);
        }
      }
      record.losses.push_back(result.loss);
      record.norms.push_back(result.grad_norm);
    }
    return weights.PutWeights(trainer->sharding());
  };
  ZEROTH_RETURN_IF_ERROR(RunLocalRanks(options.world_size, body));
  record.weights = weights.values();
  return record;
}

// A model that is its own teacher has the same distribution as its student, unless the two see
// different documents or rows.
TEST(OnlineTeacherTest, AModelThatTeachesItselfHasNoLoss) {
  for (const Divergence divergence : {Divergence::kForward, Divergence::kReverse}) {
    PackedRun run;
    run.teacher = "tests/testdata/llama_tiny";
    run.distillation = {1.0f, 1.0f, divergence};
    const absl::StatusOr<PackedRecord> record = TrainPacked(run);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_GT(std::abs(record->loss_within_documents - record->loss_within_rows), 1e-3);
    EXPECT_NEAR(record->losses[0], 0, 1e-6);
    EXPECT_NEAR(record->norms[0], 0, 1e-5);
  }
}

// Masters in bf16 are those of fp32, rounded as each gather rounds them.
TEST(OnlineTeacherTest, MastersOfTheComputedTypeChangeNoBit) {
  PackedRun run;
  run.distillation = {0.9f, 2.0f, Divergence::kForward};
  const absl::StatusOr<PackedRecord> fp32 = TrainPacked(run);
  ASSERT_TRUE(fp32.ok()) << fp32.status();
  run.dtype = DType::kBFloat16;
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
    SCOPED_TRACE(strategy);
    run.strategy = strategy;
    run.has_fp32_masters = false;
    const absl::StatusOr<PackedRecord> rounded = TrainPacked(run);
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    run.has_fp32_masters = true;
    const absl::StatusOr<PackedRecord> unrounded = TrainPacked(run);
    ASSERT_TRUE(unrounded.ok()) << unrounded.status();
    EXPECT_EQ(rounded->losses, unrounded->losses);
    EXPECT_EQ(rounded->norms, unrounded->norms);
    EXPECT_TRUE(rounded->weights == unrounded->weights);
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(rounded->losses[step], fp32->losses[step], 0.02 * fp32->losses[step]);
      EXPECT_NEAR(rounded->norms[step], fp32->norms[step], 0.05 * fp32->norms[step]);
    }
  }
  // In fp16 the gradients of the logits, too, are scaled.
  run.dtype = DType::kFloat16;
  run.has_fp32_masters = false;
  run.loss_scale = 1024;
  const absl::StatusOr<PackedRecord> scaled = TrainPacked(run);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_NEAR(scaled->losses[step], fp32->losses[step], 0.005 * fp32->losses[step]);
    EXPECT_NEAR(scaled->norms[step], fp32->norms[step], 0.01 * fp32->norms[step]);
  }

  TrainOptions options;
  const auto masters = [&options] {
    return FrozenTrainerOptionsFor(options, "teacher", nullptr)
        .sharding.mixed_precision.master_dtype;
  };
  EXPECT_EQ(masters(), DType::kFloat32);
  options.param_dtype = DType::kBFloat16;
  EXPECT_EQ(masters(), DType::kBFloat16);
  options.quantized_weights = true;
  EXPECT_EQ(masters(), DType::kFloat32);
  options = TrainOptions();
  options.param_dtype = DType::kFloat16;
  EXPECT_EQ(masters(), DType::kFloat32);
}

// Its step is a micro-batch, so that slices across groups would be gathered again in each.
TEST(OnlineTeacherTest, ATeacherIsGatheredInsideGroupsAlone) {
  PackedRun run;
  run.strategy = "hybrid_shard";
  run.world_size = 4;
  run.shard_size = 2;
  run.micro_batches = 3;
  const absl::StatusOr<PackedRecord> in_groups = TrainPacked(run);
  ASSERT_TRUE(in_groups.ok()) << in_groups.status();
  EXPECT_FALSE(in_groups->teacher_gathers.empty());
  EXPECT_EQ(in_groups->teacher_gathers.size() % 3, 0u) << "as many in each micro-batch";
  run.over_world = true;
  const absl::StatusOr<PackedRecord> over_world = TrainPacked(run);
  ASSERT_TRUE(over_world.ok()) << over_world.status();
  EXPECT_EQ(over_world->teacher_gathers, in_groups->teacher_gathers);
  EXPECT_EQ(over_world->losses, in_groups->losses);
  EXPECT_EQ(over_world->norms, in_groups->norms);
  EXPECT_TRUE(over_world->weights == in_groups->weights);
}

TEST(OnlineTeacherTest, TheProgramLearnsFromAModel) {
  const fs::path scratch = Scratch();
  const auto model = [](const char* name) {
    return fs::absolute(absl::StrCat("tests/testdata/", name)).string();
  };
  const auto train = [&](const std::string& out, const Flags& more) {
    const Flags flags = {absl::StrCat("--init_from=", model("llama_tiny")),
                         absl::StrCat("--data=", fs::absolute(kText).string()),
                         absl::StrCat("--out=", (scratch / out).string()),
                         absl::StrCat("--teacher=", model("mistral_tiny")),
                         "--objective=distill",
                         "--distill_divergence=reverse",
                         "--seq_len=32",
                         "--eval_fraction=0.2",
                         "--eval_every=2",
                         "--steps=4",
                         "--checkpoint_every=2",
                         "--batch_size=1",
                         "--deterministic_batch=4",
                         "--lr=1e-3"};
    return RunTrainer(With(flags, more));
  };
  const Outcome alone = train("alone", {"--world_size=1"});
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  const Outcome four = train("four", {"--world_size=4", "--strategy=full_shard"});
  ASSERT_EQ(four.exit_code, 0) << four.output;
  EXPECT_EQ(StepFacts(scratch / "alone"), StepFacts(scratch / "four"));
  EXPECT_EQ(StepFacts(scratch / "alone").size(), 4u);
  // Any family with the same tokens may teach, with positions that it learned or experts, and a
  // student with a cap.
  for (const char* name : {"gpt2_tiny", "gemma2_tiny", "qwen3_moe_tiny"}) {
    SCOPED_TRACE(name);
    const Outcome other = train(name, {absl::StrCat("--teacher=", model(name)), "--world_size=2"});
    EXPECT_EQ(other.exit_code, 0) << other.output;
    EXPECT_NE(StepFacts(scratch / name), StepFacts(scratch / "alone"));
  }
  const Flags traced = {"--world_size=2", "--strategy=full_shard", "--trace=2:3"};
  const Outcome with_trace = train("traced", traced);
  ASSERT_EQ(with_trace.exit_code, 0) << with_trace.output;
  EXPECT_EQ(StepFacts(scratch / "alone"), StepFacts(scratch / "traced"));
  const std::string trace = Read(scratch / "traced" / "trace.json");
  for (const char* name : {"forward teacher model.layers.0", "gather teacher model.layers.0",
                           "forward model.layers.0", "gather model.layers.0"}) {
    EXPECT_THAT(trace, HasSubstr(absl::StrCat("\"", name, "\"")));
  }
  const Outcome planned =
      train("planned", {absl::StrCat("--teacher=", model("gemma3_vision_tiny")), "--dry_run"});
  EXPECT_EQ(planned.exit_code, 0) << planned.output;
  EXPECT_THAT(planned.output, HasSubstr(": fits"));
  // The student alone would fit.
  const Outcome lacking =
      train("lacking", {"--memory_limit=1MB", "--world_size=2", "--strategy=full_shard"});
  EXPECT_NE(lacking.exit_code, 0) << lacking.output;
  EXPECT_THAT(lacking.errors, HasSubstr(absl::StrCat("--teacher=", model("mistral_tiny"), ": ")));
  const Outcome resumed =
      train("four", {absl::StrCat("--resume=", CheckpointPath((scratch / "four").string(), 2)),
                     absl::StrCat("--teacher=", model("gpt2_tiny")), "--world_size=2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr(absl::StrCat("--teacher is ", model("gpt2_tiny"), ", was ",
                                                     model("mistral_tiny"))));

  const auto expect_refused = [&](const Flags& more, const std::string& words) {
    const Outcome outcome = train("refused", more);
    EXPECT_NE(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.errors, HasSubstr(words));
    EXPECT_FALSE(fs::exists(scratch / "refused"));
  };
  expect_refused({"--teacher="}, "name its Hugging Face directory");
  expect_refused({"--teacher=" + scratch.string()}, "expected a Hugging Face directory");
  expect_refused({"--teacher_topk=topk", "--distill_divergence=forward"},
                 "--teacher_topk=topk is another teacher; leave one of them out");
  expect_refused({"--teacher=", "--teacher_topk=topk"}, "name the model by --teacher instead");
  expect_refused({"--objective=next_token", "--distill_divergence=forward"},
                 "only distill has a teacher");
  expect_refused({"--objective=next_token", "--teacher="}, "only distill has it");
  expect_refused({absl::StrCat("--init_from=", model("mistral_tiny")),
                  absl::StrCat("--teacher=", model("llama_tiny")), "--eval_fraction=0",
                  "--eval_every=0", "--seq_len=128"},
                 "has 64 positions, expected at least --seq_len=128");
  auto config = nlohmann::json::parse(Read(fs::path(model("llama_tiny")) / "config.json"));
  config["vocab_size"] = 300;
  Write(scratch / "config.json", config.dump());
  expect_refused({"--init_from=", absl::StrCat("--model=", (scratch / "config.json").string()),
                  "--tokenizer=byte"},
                 "has a vocabulary of 257 tokens, and the model one of 300");
}

TEST(TeacherTopKTest, KeepsTheFirstOfEqualLogits) {
  std::vector<int32_t> ids(3);
  std::vector<float> log_probs(3);
  FindTopK({1.0f, 3.0f, 1.0f, 2.0f, 1.0f}, absl::MakeSpan(ids), absl::MakeSpan(log_probs));
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 3}));
  const double sum = 3 * std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(log_probs[1], 3 - std::log(sum), 1e-6);
}

}  // namespace
}  // namespace zeroth::testing
