// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The machines that runs are planned for: presets, machines that a file describes, and this one.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/planned/machine.h"

namespace zeroth {

// Opens the machine that --machine names: a preset (MachineNames); "cpu" or an empty string for the
// CPU of this process, whose rates are measured in a few seconds; or a TOML file, whose name ends
// in .toml. The file has a line for each field of Machine, and like = "PRESET" for fields that it
// leaves out. InvalidArgument names the field, or lists the machines.
absl::StatusOr<Machine> OpenMachine(const std::string& machine);

std::vector<std::string> MachineNames();

// Returns the text of a machine file with all fields.
std::string MachineText(const Machine& machine);

}  // namespace zeroth
