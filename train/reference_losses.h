// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/api/trainer.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"
#include "zeroth/options/options.h"
#include "zeroth/train/model_source.h"

namespace zeroth {

// Returns losses of the shape that `rows` has, NaN in every row: none is computed.
ReferenceLosses NoReferenceLosses(const RowMask& rows, int64_t seq_len);
// Returns the rows of `needed` that `losses` lacks.
RowMask MissingRows(const RowMask& needed, const ReferenceLosses& losses, int64_t seq_len);
// Returns how many rows are marked.
int64_t CountRows(const RowMask& rows);

// Returns a trainer of the source's model that computes losses and trains nothing: its parameters
// are frozen, without memory for gradients and moments. Its weights are loaded. `options` are those
// of the run; `role` and `timeline` are as for FrozenTrainerOptionsFor. Collective.
absl::StatusOr<std::unique_ptr<Trainer>> LoadFrozen(Rank& rank, const ModelSource& source,
                                                    const TrainOptions& options,
                                                    absl::string_view role,
                                                    Timeline* timeline = nullptr);

// Computes the losses of the trainer's current weights at all targets of the marked rows of `data`,
// which hold preference pairs, and writes them to `losses`. `loader` says how this rank reads rows.
//
// Rows are computed in aligned batches of loader.batch_size rows, and a batch with a marked row is
// computed whole. Rows of a batch may affect each other's bits (through an fp8 scale or an expert's
// matmul), so batches must not depend on which rows are marked.
//
// Ranks share the work, and each gets all losses. Calls `wants_to_stop` before each batch; once it
// is true on any rank, returns false on all ranks, with the losses computed so far. Collective.
absl::StatusOr<bool> ComputeReferenceLosses(Trainer& trainer, const Mixture& data,
                                            const LoaderOptions& loader, const RowMask& rows,
                                            absl::FunctionRef<bool()> wants_to_stop,
                                            ReferenceLosses& losses);

// Copies rank 0's losses to the other ranks, where `losses` has their shape. Collective.
absl::Status BroadcastReferenceLosses(Communicator& world, Device& device, ReferenceLosses& losses);

// Returns everything beside the data that determines the losses of the reference of a run: its
// weights, by the paths, sizes, times of change and samples of their files or by what initializes
// them, and the options, the program, its libraries and the instructions with which they are
// computed. `attention` says which kernel computes attention (DescribeAttention), and `hardware`
// what the device is (HardwareName). Errors of the file system.
absl::StatusOr<std::string> ReferenceRecipe(const TrainOptions& options, const ModelSource& source,
                                            const std::string& attention,
                                            const std::string& hardware);

}  // namespace zeroth
