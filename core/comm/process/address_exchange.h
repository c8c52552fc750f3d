// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How ranks whose environment does not say where rank 0 is met ask what has started them: MPI knows
// all of them.

#ifndef ZEROTH_CORE_COMM_PROCESS_ADDRESS_EXCHANGE_H_
#define ZEROTH_CORE_COMM_PROCESS_ADDRESS_EXCHANGE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth {

// Collective over all ranks of `environment`; returns rank 0's `own`, its error included. What the
// others pass does not matter. Takes no longer than `timeout` or a minute, whichever is longer:
// DeadlineExceeded.
using AddressExchange = std::function<absl::StatusOr<std::string>(
    const ProcessEnvironment& environment, const absl::StatusOr<std::string>& own,
    absl::Duration timeout)>;

// The one that this program has; null if none is linked in. Thread-safe.
AddressExchange LauncherAddressExchange();

// Put one at namespace scope in a target with alwayslink; a program has at most one.
struct AddressExchangeRegistration {
  explicit AddressExchangeRegistration(AddressExchange exchange);
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_ADDRESS_EXCHANGE_H_
