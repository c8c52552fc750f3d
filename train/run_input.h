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

// What a run reads, opened and checked once, and shared by all ranks of the process.
struct RunInput {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;                // null: unknown, the data are token files
  std::map<std::string, std::string> tokenizer_files;  // as of ExportOptions
  std::optional<int32_t> end_of_turn;                  // ends a reply in conversations
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const Mixture> eval_data;  // null: none
  bool within_documents = false;             // tokens attend only within their document
  int64_t steps = 0;                         // of the run, as --steps or --epochs says
  double steps_per_epoch = 0;
  LrSchedule schedule;
};

// Opens everything that a run reads, before any rank starts or anything is written. InvalidArgument
// names the flag that does not fit the model, the data or the others. Also the errors of
// ModelSource and OpenMixture.
absl::StatusOr<RunInput> OpenInput(const RunSpec& spec);

// How a rank reads the data.
LoaderOptions LoaderOptionsFor(const RunSpec& spec, const RunInput& input, int rank);
// How models and checkpoints of the run are written.
absl::StatusOr<ExportOptions> ExportOptionsOf(const RunSpec& spec, const RunInput& input);

}  // namespace zeroth
