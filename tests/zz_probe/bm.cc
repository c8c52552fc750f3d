#include "zeroth/tests/zz_probe/probe.h"
#include <benchmark/benchmark.h>
static void BM_P(benchmark::State& s) { for (auto _ : s) benchmark::DoNotOptimize(zeroth::Probe(100)); }
BENCHMARK(BM_P);
// linux-sandbox
// processwrapper-sandbox
// standalone
