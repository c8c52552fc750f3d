// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/options/options.h"
#include "zeroth/train/export.h"
#include "zeroth/train/model_source.h"

namespace zeroth {

// Directories that weights are written to: the whole model first, or the adapters alone.
using ExportDirectories = std::vector<std::pair<HfDirectoryKind, std::string>>;

// The state that all ranks of a run share, opened and checked once.
struct Job {
  TrainOptions options;
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;                // null: unknown, the data are token files
  std::map<std::string, std::string> tokenizer_files;  // as of ExportOptions
  std::optional<int32_t> end_of_turn;                  // ends a reply in conversations
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const Mixture> eval_data;  // null: none
  bool within_documents = false;             // tokens attend only within their document
  LrSchedule schedule;
  bool only_evaluates = false;  // the run evaluates and writes nothing
  ExportDirectories final_directories;
  ExportDirectories ema_directories;  // empty without an average of the weights
  bool ranks_are_threads = true;      // of this process
};

// Returns `options` with the number of ranks of the run. InvalidArgument if the launcher has
// started another number than world_size; NotFound for a device or a transport that is not built
// in.
absl::StatusOr<TrainOptions> WithWorldSize(TrainOptions options);

// Opens everything that the options name, except --out, before any rank starts or anything is
// written. InvalidArgument names the flag that does not fit the others. Also the errors of
// ModelSource and OpenMixture.
absl::StatusOr<std::unique_ptr<Job>> OpenJob(const TrainOptions& options);

// Checks --out, which must be known, so that errors of the final export show before the run starts.
absl::Status OpenOutput(Job& job);

// The options of other parts of a run. Validate and OpenJob must have checked them.
LoaderOptions LoaderOptionsFor(const Job& job, int rank);
absl::StatusOr<ExportOptions> ExportOptionsOf(const Job& job);

// Returns --comm, with auto resolved by `ranks`, which describes the launcher: local if this
// process was started alone. InvalidArgument if several processes were started and each would make
// a separate run in the same --out, or if no back end can connect them.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks);
// As above, with the launcher of this process.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options);

}  // namespace zeroth
