// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rank 0's address by MPI: for this back end, and for others whose ranks mpirun has started.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_ADDRESS_H_
#define ZEROTH_CORE_COMM_MPI_MPI_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth::mpi {

// FailedPrecondition unless MPI says of this process what its environment says: otherwise the
// library that was loaded is not that of the program which has started it.
absl::Status CheckRanks(const Engine& engine, const ProcessEnvironment& environment);

// An AddressExchange (process/address_exchange.h).
absl::StatusOr<std::string> ExchangeAddress(const ProcessEnvironment& environment,
                                            const absl::StatusOr<std::string>& own,
                                            absl::Duration timeout);

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_ADDRESS_H_
