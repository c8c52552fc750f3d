// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace zeroth {

// What collectives among the devices of a node reach at one size: the bytes that each device sends
// in a ring, a second. Gathers and scatters are in place.
struct LinkRate {
  double bytes = 0;  // of the full buffer
  double all_gather = 0;
  double reduce_scatter = 0;
  double all_reduce = 0;
};

// What a plan knows of the machines that a run is planned for. A device is a GPU, or a core of a
// CPU. Rates are those that are reached, per second and device; bandwidths are one way.
struct Machine {
  std::string name;
  bool is_gpu = true;  // kernels take the scratch that ours take on GPUs, otherwise on CPUs
  int devices_per_node = 1;
  double memory_bytes = 0;    // of a GPU, or of a node of CPUs
  double reserved_bytes = 0;  // of these, what a process takes before it allocates anything
  double fp32_flops = 0;      // in large matrix products
  double tf32_flops = 0;
  double bf16_flops = 0;       // fp16 as well
  double fp8_flops = 0;        // 0: there are no such products
  double attention_share = 1;  // of the rate of products, that attention's products reach
  // cuDNN computes the backward of attention and keeps the gradients of all scores in workspace.
  bool attention_keeps_scores = false;
  // Tiles of a product that the device works on at a time: a product takes whole rounds of them.
  // 0: the shape of a product makes no difference.
  int multiprocessors = 0;
  // Of these, how many a collective's kernel keeps from other kernels while it is under way.
  int collective_multiprocessors = 0;
  double memory_bandwidth = 0;  // of what a kernel reads and writes
  double launch_seconds = 0;    // added to each kernel
  double link_bandwidth = 0;    // to devices of the node
  double link_latency = 0;      // of one step of a ring
  // Links' bandwidth by size and operation, from small to large, for groups inside one node. Empty:
  // link_bandwidth for all.
  std::vector<LinkRate> link_rates;
  double network_bandwidth = 0;  // to other nodes: a device's share of the node's network cards
  double network_latency = 0;
  double host_bandwidth = 0;  // to the memory that holds offloaded state
};

}  // namespace zeroth
