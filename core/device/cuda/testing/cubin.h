// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads the resources and instructions of a GPU's machine code from the file that ptxas writes: an
// ELF file of NVIDIA's machine type, whose `.text.<kernel>` sections have instructions of 16 bytes.
// Tests use it instead of cuobjdump and nvdisasm, which not every toolkit has.
//
// The attributes are those that `readelf` shows as sections `.nv.info`; operation codes are the low
// nine bits of an instruction, the same from compute capability 8.0 to 10.3, as nvdisasm shows.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth::cuda {

// The number of instructions of each kind in a kernel. A width is that of one thread's access, in
// bytes.
struct InstructionCounts {
  std::array<int, 17> global_loads = {};   // by width: LDG
  std::array<int, 17> global_stores = {};  // STG
  int local_accesses = 0;                  // LDL, STL: spills, and arrays that have addresses
  int double_operations = 0;               // DADD, DMUL, DFMA, DSETP
  int tensor_products = 0;                 // HMMA
  int matrix_loads = 0;                    // LDSM: ldmatrix
  int async_copies = 0;                    // LDGSTS: cp.async
};

struct KernelCode {
  std::string name;  // demangled, without namespaces and parameters: "Rotate<8, __nv_bfloat16>"
  int registers = 0;
  int frame_bytes = 0;    // of local memory, for each thread
  int shared_bytes = 0;   // of static shared arrays
  int block_threads = 0;  // the limit by __launch_bounds__; 0 if there is none
  InstructionCounts instructions;
};

struct Cubin {
  int capability = 0;  // 90 for 9.0
  std::vector<KernelCode> kernels;
};

// InvalidArgument if `bytes` are not such a file, or damaged. Unimplemented for a compute
// capability whose operation codes are unknown.
absl::StatusOr<Cubin> ReadCubin(absl::string_view bytes);

// "void zeroth::cuda::(anonymous namespace)::Map<1, float>(long)" becomes "Map<1, float>".
std::string ShortKernelName(absl::string_view demangled);

}  // namespace zeroth::cuda
