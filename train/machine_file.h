// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Machines that runs are planned for: those that are known by name, files that describe others, and
// this one.

#ifndef ZEROTH_TRAIN_MACHINE_FILE_H_
#define ZEROTH_TRAIN_MACHINE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/planned/machine.h"

namespace zeroth {

// What --machine names: a preset (MachineNames), "cpu" or nothing for the CPU that this process
// runs on, whose rates are measured in a few seconds, or a file of TOML, whose name ends in
// .toml: a line for each field of Machine, and like = "PRESET" for those that it leaves out.
// InvalidArgument names the field, or lists the machines.
absl::StatusOr<Machine> OpenMachine(const std::string& machine);

std::vector<std::string> MachineNames();

// Such a file with all fields.
std::string MachineText(const Machine& machine);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_MACHINE_FILE_H_
