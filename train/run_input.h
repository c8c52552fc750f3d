// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/options/options.h"
#include "zeroth/train/export.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {

// The part of a run that fine-tuning warms up by default, as Alpaca and Vicuna did.
inline constexpr double kFineTuningWarmupRatio = 0.03;

// Returns the warm-up steps of a run of `steps` steps: from --warmup_ratio or --warmup_steps, or by
// default kFineTuningWarmupRatio of the run with --init_from, and otherwise 20 steps, but at most a
// tenth of the run.
int64_t WarmupSteps(const TrainOptions& options, int64_t steps);

// How long a run is, and the learning rate of its steps.
struct RunLength {
  int64_t steps = 0;
  LrSchedule schedule;
};

// The inputs of a run, opened and checked once, and shared by all ranks of the process.
struct RunInput {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;                // null: unknown, the data are token files
  std::map<std::string, std::string> tokenizer_files;  // for ExportOptions
  std::optional<int32_t> end_of_turn;                  // ends a reply in conversations
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const Mixture> eval_data;    // null: none
  std::shared_ptr<const TeacherTopK> teacher;  // of --teacher_topk; null: none
  std::optional<ModelSource> reference;        // another model that --reference names
  std::optional<ModelSource> teacher_model;    // that --teacher names
  bool within_documents = false;               // tokens of `data` attend only within their document
  bool eval_within_documents = false;          // so do those of `eval_data`
  int64_t sequences_per_epoch = 0;
  RunLength length;  // of a run that is not resumed
};

// Opens everything that a run reads, before any rank starts or anything is written. InvalidArgument
// names the flag that does not fit the model, the data or the others. Also the errors of
// ModelSource and OpenMixture.
absl::StatusOr<RunInput> OpenInput(const RunSpec& spec);

// Returns the length of a run that has made `steps` steps and read `sequences` sequences. The two
// are independent, since the global batch may have changed. Errors of LrSchedule, and
// InvalidArgument for more epochs than can be counted.
absl::StatusOr<RunLength> LengthOf(const TrainOptions& options, int64_t sequences_per_epoch,
                                   int64_t steps = 0, int64_t sequences = 0);

// Returns the options with which a rank reads `data`.
LoaderOptions LoaderOptionsFor(const RunSpec& spec, const RunInput& input, int rank);
// Returns the options with which models and checkpoints of the run are written.
absl::StatusOr<ExportOptions> ExportOptionsOf(const RunSpec& spec, const RunInput& input,
                                              HfDirectoryKind kind = HfDirectoryKind::kModel);

}  // namespace zeroth
