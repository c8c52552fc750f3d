// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_JOB_H_
#define ZEROTH_TRAIN_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/train/export.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/options.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Where weights are written, as a model and as adapters alone; empty: not at all.
struct ExportDirectories {
  std::string model;
  std::string adapters;

  const std::string& shown() const { return model.empty() ? adapters : model; }
};

// What all ranks share, opened and checked once.
struct Job {
  TrainOptions options;
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;                // null: nothing says which one it is
  std::map<std::string, std::string> tokenizer_files;  // contents by name
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const Mixture> eval_data;  // null: none
  bool within_documents = false;             // tokens attend to those of their own document alone
  LrSchedule schedule;
  bool only_evaluates = false;  // and writes nothing
  ExportDirectories final_directories;
  ExportDirectories ema_directories;  // empty: no average is kept
  bool ranks_are_threads = true;      // of this process
};

// `options` with the number of ranks that there will be. InvalidArgument if the launcher has
// started another number than they ask for; NotFound for a device or a transport that is not built
// in.
absl::StatusOr<TrainOptions> WithWorldSize(TrainOptions options);

// Opens all that the options name but --out, before any rank starts or anything is written.
// InvalidArgument names the flag that does not fit the others; errors of ModelSource and
// OpenMixture.
absl::StatusOr<std::unique_ptr<Job>> OpenJob(const TrainOptions& options);

// What concerns --out, which is known: what would fail at the end of the run fails before it.
absl::Status OpenOutput(Job& job);

// What the options are to the parts of a run; they have been checked by Validate and OpenJob.
LoaderOptions LoaderOptionsFor(const TrainOptions& options, int rank);
// The same, of a job that is open.
LoaderOptions LoaderOptionsFor(const Job& job, int rank);
TrainerOptions TrainerOptionsFor(const TrainOptions& options, Timeline* timeline);
absl::StatusOr<ExportOptions> ExportOptionsOf(const Job& job);

// Of all ranks together.
int64_t TokensPerStep(const TrainOptions& options);

// --comm with auto resolved, by what `ranks` says of the program that started this process: local
// if it was started alone. InvalidArgument if it is one of several that would each make a whole run
// of its own in the same --out, or that no back end can bring together.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks);
// The same, for this process.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_JOB_H_
