// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests: makes the emulated NCCL fail, and counts what it does.

#pragma once

#include <nccl.h>

#include <cstdint>
#include <map>
#include <utility>

namespace zeroth::nccl::emulation {

// The next creation of a communicator in this process ends with `result`.
void FailNextInit(ncclResult_t result);
// The next transfer in this process fails with `result`, as a network may.
void FailNextTransfer(ncclResult_t result);
// The next registration of a window in this process ends with `result`.
void FailNextRegistration(ncclResult_t result);
// The number of gathers of this process by copy engines: with memory registered on both sides, on
// communicators that use no SMs.
int64_t CopyEngineGathers();
// The number of groups of this process that have held a call.
int64_t Groups();
// The number of communicators of this process that were started with several unique ids.
int64_t StartsWithSeveralRoots();
// The number of sends and receives of this process whose memory does not begin at a multiple of 16
// bytes, which kernels cannot load as vectors.
int64_t UnalignedTransfers();
// The bytes that calls of ncclSend in this process have sent since the last TakeBytesSent, by
// sender and receiver, as ranks of their communicator.
std::map<std::pair<int, int>, int64_t> TakeBytesSent();
// From now on gathers by copy engines in this process do not end when their communicator is
// aborted.
void LeaveCopyEnginesWaiting();
// While on, transfers of this process make no progress, as on a network that is down. Aborting
// communicators still works.
void StallTransfers(bool on);

}  // namespace zeroth::nccl::emulation
