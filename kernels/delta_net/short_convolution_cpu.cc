// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_net/short_convolution_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/activation/activation-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"

#ifndef ZEROTH_CHANNEL_TILE
#define ZEROTH_CHANNEL_TILE
namespace zeroth::cpu {
namespace {

// A task computes some channels of one sequence. Its taps lie as [width, kTile].
constexpr int64_t kTile = 256;
// A weight's gradient is summed in fp32 over this many tokens, and these sums are added in double,
// so that rounding does not grow with the sequence.
constexpr int64_t kTokensOfSum = 64;
struct ChannelTile {
  int64_t sequence = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Returns the number of earlier tokens that the token at `place` of the sequence reads.
int64_t Reach(const ShortConvolutionCall& call, int64_t sequence, int64_t place) {
  if (call.initial_state != nullptr) return call.width - 1;
  int64_t start = 0;
  // Clamped, so that memory outside of the sequence is not read whatever `starts` holds.
  if (call.starts != nullptr) {
    start = std::clamp<int64_t>(call.starts[sequence * call.seq + place], 0, place);
  }
  return std::min(place - start, call.width - 1);
}

}  // namespace
}  // namespace zeroth::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void LoadTaps(const ShortConvolutionCall& call, const ChannelTile& tile, float* taps) {
  const T* const weight = static_cast<const T*>(call.weight) + tile.first * call.width;
  for (int64_t c = 0; c < tile.count; ++c) {
    for (int64_t i = 0; i < call.width; ++i) {
      taps[i * kTile + c] = ValueOf(weight[c * call.width + i]);
    }
  }
}

// Returns the inputs of a tile's token at `place`, at least 1 - width; those before the sequence
// are in the initial state.
template <typename T>
HWY_INLINE const T* InputAt(const ShortConvolutionCall& call, const ChannelTile& tile,
                            int64_t place) {
  const int64_t kept = call.width - 1;
  const auto* const from = static_cast<const T*>(place < 0 ? call.initial_state : call.x);
  const int64_t row =
      place < 0 ? (tile.sequence + 1) * kept + place : tile.sequence * call.seq + place;
  return from + row * call.channels + tile.first;
}

// Returns the convolution, before its activation, of channels from `c` on; x[j] has the inputs j
// tokens earlier. `taps` points to the tap of the token itself; earlier taps precede it.
template <bool kWhole, class D, typename T>
HWY_INLINE hn::Vec<D> Convolve(D d, const T* const* x, size_t c, const float* taps, int64_t reach,
                               size_t count) {
  auto sum = hn::Zero(d);
  for (int64_t j = reach; j >= 0; --j) {
    sum = hn::MulAdd(LoadLanes<kWhole>(d, taps - j * kTile + c, count),
                     LoadLanes<kWhole>(d, x[j] + c, count), sum);
  }
  return sum;
}

void ConvolveTile(const ShortConvolutionCall& call, const ChannelTile& tile) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    HWY_ALIGN float taps[kMostTaps * kTile];
    LoadTaps<T>(call, tile, taps);
    const float* const last = taps + (call.width - 1) * kTile;
    for (int64_t place = 0; place < call.seq; ++place) {
      T* const y =
          static_cast<T*>(call.y) + (tile.sequence * call.seq + place) * call.channels + tile.first;
      const int64_t reach = Reach(call, tile.sequence, place);
      const T* x[kMostTaps];
      for (int64_t j = 0; j <= reach; ++j) x[j] = InputAt<T>(call, tile, place - j);
      ForVectors(static_cast<size_t>(tile.count),
                 [=, &x](auto d, size_t c, auto whole, size_t count) HWY_ATTR {
                   const auto sum = Convolve<whole()>(d, x, c, last, reach, count);
                   StoreLanes<whole()>(SiluOf(d, sum), d, y + c, count);
                 });
    }
    if (call.final_state == nullptr) return;
    const int64_t kept = call.width - 1;
    for (int64_t i = 0; i < kept; ++i) {
      T* const to = static_cast<T*>(call.final_state) + (tile.sequence * kept + i) * call.channels +
                    tile.first;
      const int64_t place = call.seq - kept + i;
      if (place < 0 && call.initial_state == nullptr) {
        std::fill_n(to, tile.count, T());
      } else {
        std::copy_n(InputAt<T>(call, tile, place), tile.count, to);
      }
    }
  });
}

// Returns the derivative of SiLU.
template <class D, class V>
HWY_INLINE V SiluSlope(D d, V raw) {
  const V x = AtLeast(d, kSiluLowest, raw);
  V s = x;
  V complement = x;
  LogisticAndComplement(d, x, s, complement);
  return hn::Mul(s, hn::MulAdd(x, complement, hn::Set(d, 1.0f)));
}

// From the last token to the first. `dtaps` [channels, width] is this sequence's part of the
// weight's gradient; a ring holds the gradients of the latest convolutions, before the activation.
void ConvolveTileBackward(const ShortConvolutionBackwardCall& call, const ChannelTile& tile,
                          float* dtaps) {
  const ShortConvolutionCall& forward = call.forward;
  WithElementType(forward.dtype, [&]<typename T>(T) HWY_ATTR {
    const int64_t width = forward.width;
    HWY_ALIGN float taps[kMostTaps * kTile];
    HWY_ALIGN float sums[kMostTaps * kTile] = {};
    double totals[kMostTaps * kTile] = {};
    HWY_ALIGN float ring[kMostTaps * kTile];
    int64_t reaches[kMostTaps] = {};
    LoadTaps<T>(forward, tile, taps);
    float* const last = taps + (width - 1) * kTile;
    float* const last_sum = sums + (width - 1) * kTile;
    for (int64_t place = forward.seq - 1; place >= 0; --place) {
      const int64_t at = (tile.sequence * forward.seq + place) * forward.channels + tile.first;
      const T* const dy = static_cast<const T*>(call.dy) + at;
      T* const dx = static_cast<T*>(call.dx) + at;
      const int64_t reach = Reach(forward, tile.sequence, place);
      const T* x[kMostTaps];
      for (int64_t j = 0; j <= reach; ++j) x[j] = InputAt<T>(forward, tile, place - j);
      reaches[place % width] = reach;
      float* const here = ring + place % width * kTile;
      const int64_t later = std::min(width, forward.seq - place);
      ForVectors(static_cast<size_t>(tile.count), [&](auto d, size_t c, auto whole,
                                                      size_t count) HWY_ATTR {
        const auto sum = Convolve<whole()>(d, x, c, last, reach, count);
        const auto dsum = hn::Mul(LoadLanes<whole()>(d, dy + c, count), SiluSlope(d, sum));
        StoreLanes<whole()>(dsum, d, here + c, count);
        for (int64_t j = 0; j <= reach; ++j) {
          float* const to = last_sum - j * kTile + c;
          StoreLanes<whole()>(hn::MulAdd(dsum, LoadLanes<whole()>(d, x[j] + c, count),
                                         LoadLanes<whole()>(d, to, count)),
                              d, to, count);
        }
        auto gradient = hn::Zero(d);
        for (int64_t j = 0; j < later; ++j) {
          const int64_t slot = (place + j) % width;
          if (reaches[slot] < j) continue;
          gradient = hn::MulAdd(LoadLanes<whole()>(d, last - j * kTile + c, count),
                                LoadLanes<whole()>(d, ring + slot * kTile + c, count), gradient);
        }
        StoreLanes<whole()>(gradient, d, dx + c, count);
      });
      if (place % kTokensOfSum != 0) continue;
      for (int64_t i = 0; i < width * kTile; ++i) totals[i] += static_cast<double>(sums[i]);
      std::fill_n(sums, width * kTile, 0.0f);
    }
    if (dtaps == nullptr) return;
    for (int64_t c = 0; c < tile.count; ++c) {
      for (int64_t i = 0; i < width; ++i) {
        dtaps[c * width + i] = static_cast<float>(totals[i * kTile + c]);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(ConvolveTile);
HWY_EXPORT(ConvolveTileBackward);

// Calls body(tile) for the tiles of all sequences.
template <typename Body>
void ForTiles(const ShortConvolutionCall& call, const Body& body) {
  const int64_t tiles = (call.channels + kTile - 1) / kTile;
  ParallelFor(call.batch * tiles, 1, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % tiles * kTile;
      body(ChannelTile{task / tiles, first, std::min(kTile, call.channels - first)});
    }
  });
}

absl::Status ShortConvolution(const ShortConvolutionCall& call, CpuKernels&) {
  const auto convolve = HWY_DYNAMIC_DISPATCH(ConvolveTile);
  ForTiles(call, [&](const ChannelTile& tile) { convolve(call, tile); });
  return absl::OkStatus();
}
const OnCpu<ShortConvolution> short_convolution;

absl::Status ShortConvolutionBackward(const ShortConvolutionBackwardCall& call,
                                      CpuKernels& kernels) {
  const ShortConvolutionCall& forward = call.forward;
  const int64_t weights = forward.channels * forward.width;
  float* partial = nullptr;
  if (call.dweight != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(partial, kernels.workspace().ReserveFloats(forward.batch * weights));
  }
  const auto convolve = HWY_DYNAMIC_DISPATCH(ConvolveTileBackward);
  ForTiles(forward, [&](const ChannelTile& tile) {
    convolve(call, tile,
             partial == nullptr ? nullptr
                                : partial + tile.sequence * weights + tile.first * forward.width);
  });
  if (partial != nullptr) {
    AddBlocks(forward.batch, weights, weights, partial, call.accumulate_dweight, call.grad_dtype,
              call.dweight);
  }
  return absl::OkStatus();
}
const OnCpu<ShortConvolutionBackward> short_convolution_backward;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
