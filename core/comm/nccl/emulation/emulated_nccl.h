// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How tests make the emulated NCCL fail.

#ifndef ZEROTH_CORE_COMM_NCCL_EMULATION_EMULATED_NCCL_H_
#define ZEROTH_CORE_COMM_NCCL_EMULATION_EMULATED_NCCL_H_

#include <nccl.h>

#include <cstdint>

namespace zeroth::nccl::emulation {

// The next attempt in this process to make a communicator ends with `result`.
void FailNextInit(ncclResult_t result);
// The next transfer in this process fails with `result`, as a network does.
void FailNextTransfer(ncclResult_t result);
// The next attempt in this process to register a window ends with `result`.
void FailNextRegistration(ncclResult_t result);
// How many gathers of this process went by copy engine: registered on both sides, on communicators
// that use no multiprocessors.
int64_t CopyEngineGathers();
// From now on gathers of this process that went by copy engine do not end when their communicator
// is aborted.
void LeaveCopyEnginesWaiting();
// While on, transfers of this process make no progress, as on a network that is down. Communicators
// are aborted all the same.
void StallTransfers(bool on);

}  // namespace zeroth::nccl::emulation

#endif  // ZEROTH_CORE_COMM_NCCL_EMULATION_EMULATED_NCCL_H_
