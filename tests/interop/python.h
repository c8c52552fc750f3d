// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace zeroth {

struct PythonOutcome {
  int exit_code = -1;
  std::string output;  // stdout
  std::string errors;  // stderr

  bool ok() const { return exit_code == 0; }
};

// Runs this project's script tests/interop/`script` with `arguments`, without a shell, in the
// interpreter of @zeroth_python or, if there is none, in the system's python3.
PythonOutcome RunPython(const std::string& script, const std::vector<std::string>& arguments);

// Whether that interpreter has a module; if not, the skip message says how to get it.
bool PythonHas(const std::string& module);
std::string HowToGetPythonPackages();
// The same for torch and transformers, which are never installed automatically.
std::string HowToGetTransformers();

}  // namespace zeroth
