#include "zeroth/tests/zz_probe/probe.h"
#include <omp.h>
#include <vector>
#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/random/random.h"
#include "absl/strings/str_format.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "nlohmann/json.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/zz_probe/probe.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
HWY_BEFORE_NAMESPACE();
namespace zeroth { namespace HWY_NAMESPACE {
double SumAll(const float* p, size_t n) { double s=0; const hwy::HWY_NAMESPACE::ScalableTag<float> d; (void)d; for (size_t i=0;i<n;++i) s+=p[i]; return s; }
} }
HWY_AFTER_NAMESPACE();
#if HWY_ONCE
ABSL_FLAG(int, probe, 1, "x");
namespace zeroth {
HWY_EXPORT(SumAll);
absl::StatusOr<double> Probe(int n) {
  if (n < 0) return absl::InvalidArgumentError(absl::StrFormat("n=%d", n));
  dnnl::engine e(dnnl::engine::kind::cpu, 0);
  nlohmann::json j = {{"a", n}};
  absl::flat_hash_map<int, int> m{{n, n}};
  absl::BitGen gen; (void)absl::Uniform(gen, 0, 3);
  std::vector<float> v(static_cast<size_t>(n), 1.0f);
#pragma omp parallel for
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = 2;
  return HWY_DYNAMIC_DISPATCH(SumAll)(v.data(), v.size()) + j["a"].get<int>() + m[n] * 0 + omp_get_max_threads() * 0;
}
}
#endif
