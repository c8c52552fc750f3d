// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace zeroth {

// Bandwidth of collectives among the devices of a node at one size: the bytes per second that each
// device sends in a ring. Gathers and scatters are in place.
struct LinkRate {
  double bytes = 0;  // of the full buffer
  double all_gather = 0;
  double reduce_scatter = 0;
  double all_reduce = 0;
};

// What a plan knows about the machines of a run. A device is a GPU, or a core of a CPU. Rates are
// those reached in practice, per second and device; bandwidths are one way.
struct Machine {
  std::string name;
  bool is_gpu = true;  // scratch as of our GPU kernels, otherwise of our CPU kernels
  int devices_per_node = 1;
  double memory_bytes = 0;    // of a GPU, or of a node of CPUs
  double reserved_bytes = 0;  // of these, used by a process before it allocates anything
  double fp32_flops = 0;      // in large matmuls
  double tf32_flops = 0;
  double bf16_flops = 0;       // fp16 as well
  double fp8_flops = 0;        // 0: no fp8 matmuls
  double attention_share = 1;  // fraction of the matmul rate that attention reaches
  // cuDNN computes the backward of attention and keeps the gradients of all scores in workspace.
  bool attention_keeps_scores = false;
  // SMs. A matmul takes whole waves of one tile per SM; 0: no wave quantisation.
  int multiprocessors = 0;
  // SMs that a collective's kernel occupies while it is in flight.
  int collective_multiprocessors = 0;
  double memory_bandwidth = 0;  // of a kernel's reads and writes
  double launch_seconds = 0;    // added to each kernel
  double link_bandwidth = 0;    // to devices of the node
  double link_latency = 0;      // of one step of a ring
  // Bandwidth by size and operation, from small to large, for groups inside one node. Empty:
  // link_bandwidth for all.
  std::vector<LinkRate> link_rates;
  double network_bandwidth = 0;  // to other nodes: a device's share of the node's NICs
  double network_latency = 0;
  double host_bandwidth = 0;  // to the memory that holds offloaded state
};

}  // namespace zeroth
