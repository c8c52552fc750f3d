#pragma once
#include "absl/status/statusor.h"
namespace zeroth { absl::StatusOr<double> Probe(int n); }
