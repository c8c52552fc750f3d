// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/options/options.h"

namespace zeroth {

// A run after everything about it is decided, and before any rank starts. Nothing changes it later.
struct RunSpec {
  // Valid, and with the values that the launcher, the machine, an adapter or other options imply:
  // comm, world_size, threads_per_rank, seq_len, batch_size, grad_accum, init_from and the
  // adapter's. `out` is empty if the run makes a directory under kRunsDirectory.
  TrainOptions options;
  // The options that config.toml stores to repeat the run: with its ranks and threads, but without
  // values that follow from other options, so that flags can still change those.
  TrainOptions config;
  bool ranks_are_threads = true;  // of this process, and not processes that a launcher started

  bool only_evaluates() const {  // writes nothing
    return options.steps == 0 && (!options.eval_data.empty() || options.eval_fraction > 0);
  }
};

inline constexpr char kCudaGraphsNeed[] =
    "--cuda_graphs needs --device=cuda and, with --comm=local, --world_size=1";

// Decides a run from the options as they were given and from the launcher of this process. Starts
// and writes nothing. InvalidArgument names the flag that is wrong, or does not fit the others or
// the launcher; NotFound for a device or a back end that is not built in. Also the errors of
// WithInitAdapter and KnownRunDirectory.
absl::StatusOr<RunSpec> ResolveRun(const TrainOptions& given);

// InvalidArgument if --base_dtype has no weights to quantize, because --init_from is missing. Call
// it for a new run: a resumed one reads quantized weights from its checkpoint.
absl::Status ExpectWeightsToQuantize(const TrainOptions& options);

// Decides the options of a run that is only planned, for another machine of GPUs or CPUs. Needs no
// launcher and no data. Checks the batch, the optimizer and the strategy as ResolveRun does, but no
// device and no directory, which may be missing here. InvalidArgument as ResolveRun, and the errors
// of WithInitAdapter.
absl::StatusOr<TrainOptions> ResolveOnMachine(const TrainOptions& given, bool is_gpu);

// The steps of ResolveRun, for programs that start ranks by the trainer's options.

// Returns --comm, with auto resolved by `ranks`, which describes the launcher: local if this
// process was started alone. InvalidArgument if several processes were started and each would make
// a separate run in the same --out, or if no back end can connect them.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks);
// Like the function above, with the launcher of this process.
absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options);
// Sets world_size and local_world_size. Returns whether the ranks are threads of this process.
// InvalidArgument if the launcher has started another number than world_size; NotFound as
// ResolveRun.
absl::StatusOr<bool> SetWorldSize(TrainOptions& options);

}  // namespace zeroth
