// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a machine.

#pragma once

#include <string>

#include "absl/types/span.h"

namespace zeroth {

std::string HostName();  // "unknown" if the machine has none
// Returns the kernel's boot id, which tells machines of one name apart; empty if there is none.
std::string BootId();

// Returns the name of this process's machine: two processes on one machine have the same.
std::string NodeName();
// Changes the result of NodeName in this thread.
void SetNodeNameForTest(std::string name);

// Returns how many consecutive ranks each node has, if the ranks of a group form several nodes of
// one size that is a power of two. Each node is then a subtree of the reduction tree
// (communicator.h). Otherwise returns 1. `nodes` has the name of each rank's node.
int RanksPerNode(absl::Span<const std::string> nodes);

}  // namespace zeroth
