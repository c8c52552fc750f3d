// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/bf16_products.h"

#include <cstdint>

#include "dnnl.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace zeroth::cpu {
namespace {

bool Includes(dnnl_cpu_isa_t isa, dnnl_cpu_isa_t needed) { return (isa & needed) == needed; }

// Intel's cores since Sapphire Rapids leave bf16 to AMX: their VDPBF16PS, though it does twice the
// work of a multiply-add, starts only every second cycle where two multiply-adds start in each, so
// that fp32 is twice as fast (measured: 110 against 220 GFLOP/s on a core of Emerald Rapids whose
// AMX the hypervisor hides). AVX512_FP16 tells these cores from Cooper Lake.
bool Bf16DotProductIsSlow() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_INTEL_ebx) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAvx512Fp16 = 1u << 23;
  return (edx & kAvx512Fp16) != 0;
#else
  return false;
#endif
}

bool HasAmx() { return Includes(dnnl_get_effective_cpu_isa(), dnnl_cpu_isa_avx512_core_amx); }

// What an AMX tile multiplies by at once. Other depths end in a tail that oneDNN gets wrong: 2.6
// executes an instruction that the processor refuses (oneDNN's issue 1661), and versions as late as
// 3.14 mix what lies behind a row into others' results (issue 5717).
constexpr int64_t kAmxDepth = 32;

}  // namespace

bool HasNativeBf16Products(int64_t depth) {
  static const bool has_any = Includes(dnnl_get_effective_cpu_isa(), dnnl_cpu_isa_avx512_core_bf16);
  static const bool has_amx = HasAmx();
  return has_any && (!has_amx || depth % kAmxDepth == 0);
}

Bf16Products FastestBf16Products(int64_t depth) {
  static const bool is_slow = !HasAmx() && Bf16DotProductIsSlow();
  return HasNativeBf16Products(depth) && !is_slow ? Bf16Products::kNative : Bf16Products::kWidened;
}

}  // namespace zeroth::cpu
