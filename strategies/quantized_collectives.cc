// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/quantized_collectives.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/quantize/quantize.h"

namespace zeroth {
namespace {

class Int8Gather : public GatherExtension {
 public:
  explicit Int8Gather(int64_t block) : block_(block) {}

  int64_t EncodedBytes(int64_t numel, DType) const override {
    return QuantizedBlocks{numel, block_}.bytes();
  }
  absl::Status Encode(const Tensor& mine, const Tensor& encoded, Kernels& kernels) override {
    return kernels::Quantize(kernels, {.values = mine, .block = block_, .quantized = encoded});
  }
  absl::Status Decode(const Tensor& encoded, int pieces, const Tensor& full,
                      Kernels& kernels) override {
    return kernels::Dequantize(
        kernels, {.quantized = encoded, .pieces = pieces, .block = block_, .values = full});
  }

 private:
  const int64_t block_;
};

class Quantized : public ExtendedGather {
 public:
  explicit Quantized(const QuantizationOptions& options)
      : ExtendedGather(std::make_shared<Int8Gather>(options.block)), options_(options) {}

  absl::Status AllGather(const Tensor& mine, const Tensor& full,
                         const CollectiveContext& context) override {
    return options_.weights ? ExtendedGather::AllGather(mine, full, context)
                            : UnitCollectives::AllGather(mine, full, context);
  }

  // Every rank quantises its full gradients, sends each rank the part for that rank's shard, and
  // sums the parts that it receives.
  absl::Status ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op, bool accumulate,
                             const CollectiveContext& context) override {
    if (!options_.gradients || op == ReduceOp::kMax) {
      return UnitCollectives::ReduceScatter(full, mine, op, accumulate, context);
    }
    ZEROTH_CHECK(context.kernels != nullptr);
    const int pieces = context.group.size();
    const int64_t bytes = QuantizedBlocks{mine.numel(), options_.block}.bytes();
    ZEROTH_ASSIGN_OR_RETURN(const Tensor both,
                            context.scratch->TakeBytes(2 * pieces * bytes, context.stream));
    const Tensor sent = both.View(0, Shape({pieces * bytes}));
    const Tensor received = both.View(pieces * bytes, Shape({pieces * bytes}));
    for (int piece = 0; piece < pieces; ++piece) {
      ZEROTH_RETURN_IF_ERROR(kernels::Quantize(
          *context.kernels, {.values = full.View(piece * mine.numel(), mine.shape()),
                             .block = options_.block,
                             .quantized = sent.View(piece * bytes, Shape({bytes}))}));
    }
    ZEROTH_RETURN_IF_ERROR(context.group.AllToAll(sent, received, context.stream, context.label));
    return kernels::SumQuantized(*context.kernels, {.quantized = received,
                                                    .pieces = pieces,
                                                    .block = options_.block,
                                                    .mean = op == ReduceOp::kMean,
                                                    .sum = mine,
                                                    .accumulate = accumulate});
  }

 private:
  const QuantizationOptions options_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<UnitCollectives>> QuantizedCollectives(
    const QuantizationOptions& options) {
  if (options.block < 1) {
    return InvalidArgument("quantized collectives: block is ", options.block,
                           ", expected at least 1 element");
  }
  return std::make_shared<Quantized>(options);
}

}  // namespace zeroth
