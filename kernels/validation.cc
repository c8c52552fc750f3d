// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/validation.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/exact_sum.h"
#include "zeroth/kernels/fp8.h"
#include "zeroth/kernels/quantized_blocks.h"

namespace zeroth {
namespace {

// The element type that fields of one call share: fp32, bf16 or fp16, whichever the first of them
// has.
struct SharedType {
  const char* leader = nullptr;  // that first field, once there is one
  DType dtype = DType::kFloat32;
};

// Checks the fields of one call and remembers the first that is wrong.
class Checker {
 public:
  Checker(const char* operation, const Device& device) : operation_(operation), device_(device) {}

  // `tensor` is defined, on the device and of this dtype.
  bool Kind(const char* field, const Tensor& tensor, DType dtype) {
    if (!Place(field, tensor)) return false;
    if (tensor.dtype() == dtype) return true;
    return Fail(field,
                absl::StrCat("is ", DTypeName(tensor.dtype()), ", expected ", DTypeName(dtype)));
  }

  // `tensor` is defined, on the device and of the shared type, which it decides if it is the first.
  bool Kind(const char* field, const Tensor& tensor, SharedType& type) {
    if (!Place(field, tensor)) return false;
    const DType dtype = tensor.dtype();
    if (type.leader == nullptr) {
      if (!IsFloatingPoint(dtype))
        return Fail(field, absl::StrCat("is ", DTypeName(dtype), ", expected fp32, bf16 or fp16"));
      if (!OneHalf(field, dtype)) return false;
      type = {field, dtype};
    }
    if (dtype == type.dtype) return true;
    return Fail(field, absl::StrCat("is ", DTypeName(dtype), ", expected ", DTypeName(type.dtype),
                                    " as ", type.leader));
  }

  // The same of a tensor that the optimizer keeps: fp32 or bf16, whatever gradients are.
  bool Kept(const char* field, const Tensor& tensor, const Shape& shape) {
    if (!Place(field, tensor)) return false;
    if (tensor.dtype() != DType::kFloat32 && tensor.dtype() != DType::kBFloat16) {
      return Fail(field, absl::StrCat("is ", DTypeName(tensor.dtype()), ", expected fp32 or bf16"));
    }
    return Exactly(field, tensor, shape, tensor.dtype());
  }

  // `tensor` is defined and on the device.
  bool Place(const char* field, const Tensor& tensor) {
    if (!status_.ok()) return false;
    if (!tensor.defined()) return Fail(field, "is undefined");
    if (&tensor.device() == &device_) return true;
    return Fail(field,
                absl::StrCat("is on ", tensor.device().name(), ", expected ",
                             tensor.device().name() == device_.name() ? "this rank's own " : "",
                             device_.name()));
  }

  bool MinRank(const char* field, const Tensor& tensor, int rank) {
    if (tensor.shape().rank() >= rank) return true;
    return Fail(field, absl::StrCat("is ", tensor.shape().ToString(), ", expected at least ", rank,
                                    " dimensions"));
  }

  template <typename Type>
  bool Exactly(const char* field, const Tensor& tensor, const Shape& shape, Type&& type) {
    if (!Kind(field, tensor, type)) return false;
    if (tensor.shape() == shape) return true;
    return Fail(field,
                absl::StrCat("is ", tensor.shape().ToString(), ", expected ", shape.ToString()));
  }

  // [rows, cols] once the leading dimensions are flattened.
  template <typename Type>
  bool Rows(const char* field, const Tensor& tensor, int64_t rows, int64_t cols, Type&& type) {
    if (!Kind(field, tensor, type)) return false;
    const Matrix flat(tensor);
    if (flat.rows == rows && flat.cols == cols) return true;
    return Fail(field,
                absl::StrCat("is ", tensor.shape().ToString(), ", expected ",
                             Shape({rows, cols}).ToString(), " (leading dimensions flattened)"));
  }

  template <typename Type>
  bool Count(const char* field, const Tensor& tensor, int64_t count, Type&& type) {
    if (!Kind(field, tensor, type)) return false;
    if (tensor.numel() == count) return true;
    return Fail(field,
                absl::StrCat("is ", tensor.shape().ToString(), ", expected ", count, " elements"));
  }

  bool Inside(const char* field, const Matrix& matrix, SharedType& type) {
    if (!Kind(field, matrix.tensor, type)) return false;
    const bool sane = matrix.rows >= 0 && matrix.cols >= 0 && matrix.offset >= 0 &&
                      (matrix.rows <= 1 || matrix.stride >= matrix.cols);
    const int64_t end = matrix.rows == 0 || matrix.cols == 0
                            ? 0  // touches nothing, wherever it lies
                            : matrix.offset + (matrix.rows - 1) * matrix.stride + matrix.cols;
    if (sane && end <= matrix.tensor.numel()) return true;
    return Fail(field,
                absl::StrCat("is ", Name(matrix), " at offset ", matrix.offset, " with rows ",
                             matrix.stride, " apart, which does not fit its tensor ",
                             matrix.tensor.shape().ToString()));
  }

  bool Sized(const char* field, const Matrix& matrix, int64_t rows, int64_t cols,
             SharedType& type) {
    if (!Inside(field, matrix, type)) return false;
    if (matrix.rows == rows && matrix.cols == cols) return true;
    return Fail(field,
                absl::StrCat("is ", Name(matrix), ", expected ", Shape({rows, cols}).ToString()));
  }

  bool Require(bool condition, const char* field, const std::string& problem) {
    if (!status_.ok()) return false;
    return condition || Fail(field, problem);
  }

  const absl::Status& status() const { return status_; }

 private:
  // A call has one 16-bit type, if any: no device pairs the two.
  bool OneHalf(const char* field, DType dtype) {
    if (dtype == DType::kFloat32) return true;
    if (half_.leader == nullptr) half_ = {field, dtype};
    if (half_.dtype == dtype) return true;
    return Fail(field, absl::StrCat("is ", DTypeName(dtype), ", expected fp32 or ",
                                    DTypeName(half_.dtype), " beside ", half_.leader));
  }

  static std::string Name(const Matrix& matrix) {
    return absl::StrCat("[", matrix.rows, ", ", matrix.cols, "]");
  }

  bool Fail(const char* field, absl::string_view problem) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrCat(operation_, ": ", field, " ", problem));
    return false;
  }

  const char* operation_;
  const Device& device_;
  SharedType half_;  // the first field of a 16-bit type
  absl::Status status_;
};

// Fields that both kinds of norm share; LayerNorm adds beta and mean.
template <typename Args>
void CheckNorm(Checker& check, const Args& args, SharedType& type) {
  if (!check.Kind("x", args.x, type) || !check.MinRank("x", args.x, 1)) return;
  const Matrix x(args.x);
  if (args.residual.defined()) {
    check.Rows("residual", args.residual, x.rows, x.cols, type);
    check.Rows("sum", args.sum, x.rows, x.cols, type);
  } else {
    check.Require(!args.sum.defined(), "sum", "is given without residual");
  }
  check.Exactly("gamma", args.gamma, {x.cols}, type);
  check.Rows("y", args.y, x.rows, x.cols, type);
  check.Count("rstd", args.rstd, x.rows, DType::kFloat32);
}

template <typename Args>
void CheckNormBackward(Checker& check, const Args& args, SharedType& gradient) {
  SharedType type;
  if (!check.Kind("x", args.x, type) || !check.MinRank("x", args.x, 1)) return;
  const Matrix x(args.x);
  check.Rows("dy", args.dy, x.rows, x.cols, type);
  check.Exactly("gamma", args.gamma, {x.cols}, type);
  check.Count("rstd", args.rstd, x.rows, DType::kFloat32);
  check.Rows("dx", args.dx, x.rows, x.cols, type);
  if (args.dgamma.defined()) check.Exactly("dgamma", args.dgamma, {x.cols}, gradient);
}

bool CheckAttentionShape(Checker& check, const AttentionShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.seq >= 0 && shape.heads >= 0 &&
                     shape.kv_heads >= 0 && shape.head_dim >= 0;
  if (!check.Require(sizes, "shape", "has a negative size")) return false;
  const bool divides = shape.kv_heads > 0 ? shape.heads % shape.kv_heads == 0 : shape.heads == 0;
  return check.Require(divides, "shape",
                       absl::StrCat("has ", shape.heads, " heads and ", shape.kv_heads,
                                    " kv_heads, expected a divisor of heads"));
}

bool CheckPacked(Checker& check, const char* field, const Tensor& tensor,
                 const AttentionShape& shape, SharedType& type) {
  return check.Rows(field, tensor, shape.batch * shape.seq, shape.packed_dim(), type);
}

// What follows the product: at most one of the ways in which GemmArgs finishes it.
void CheckEpilogue(Checker& check, const GemmArgs& args, SharedType& operands, SharedType& c) {
  const int64_t m = args.c.rows;
  const int64_t n = args.c.cols;
  const bool activated = args.activation != Activation::kNone;
  if (args.bias.defined()) check.Exactly("bias", args.bias, {n}, operands);
  check.Require(!args.accumulate || (!args.bias.defined() && !activated), "accumulate",
                "excludes bias and activation");
  if (args.pre_activation.defined()) {
    check.Require(args.activation == Activation::kGelu, "pre_activation",
                  "is given without the activation kGelu");
    check.Rows("pre_activation", args.pre_activation, m, n, c);
  }
  if (args.gelu_input.defined()) {
    check.Require(!args.bias.defined() && !activated && !args.accumulate, "gelu_input",
                  "excludes bias, activation and accumulate");
    check.Rows("gelu_input", args.gelu_input, m, n, c);
  }
}

}  // namespace

absl::Status ValidateGemm(const Device& device, const GemmArgs& args) {
  Checker check("Gemm", device);
  SharedType operands;
  SharedType c;
  if (!check.Inside("a", args.a, operands) || !check.Inside("b", args.b, operands))
    return check.status();
  const int64_t m = args.transpose_a ? args.a.cols : args.a.rows;
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  const int64_t n = args.transpose_b ? args.b.rows : args.b.cols;
  check.Sized("b", args.b, args.transpose_b ? n : k, args.transpose_b ? k : n, operands);
  if (check.Sized("c", args.c, m, n, c)) CheckEpilogue(check, args, operands, c);
  return check.status();
}

absl::Status ValidateBiasGradient(const Device& device, const Matrix& dy, const Tensor& dbias) {
  Checker check("BiasGradient", device);
  SharedType type;
  SharedType gradient;
  check.Inside("dy", dy, type);
  check.Exactly("dbias", dbias, {dy.cols}, gradient);
  return check.status();
}

absl::Status ValidateEmbedding(const Device& device, const Tensor& tokens, const Tensor& table,
                               const Tensor& positions, const Tensor& out) {
  Checker check("Embedding", device);
  SharedType type;
  if (!check.Kind("tokens", tokens, DType::kInt32) || !check.Kind("table", table, type))
    return check.status();
  if (!check.Require(tokens.shape().rank() == 2, "tokens",
                     absl::StrCat("is ", tokens.shape().ToString(), ", expected [batch, seq]")) ||
      !check.Require(table.shape().rank() == 2, "table",
                     absl::StrCat("is ", table.shape().ToString(), ", expected [vocab, dim]"))) {
    return check.status();
  }
  const int64_t seq = tokens.dim(1);
  const int64_t dim = table.dim(1);
  if (positions.defined() && check.Kind("positions", positions, type)) {
    check.Require(
        positions.shape().rank() == 2 && positions.dim(0) >= seq && positions.dim(1) == dim,
        "positions",
        absl::StrCat("is ", positions.shape().ToString(), ", expected [at least ", seq, ", ", dim,
                     "]"));
  }
  check.Exactly("out", out, {tokens.dim(0), seq, dim}, type);
  return check.status();
}

absl::Status ValidateEmbeddingBackward(const Device& device, const Tensor& tokens,
                                       const Tensor& dout, const Tensor& dtable) {
  Checker check("EmbeddingBackward", device);
  SharedType type;
  SharedType gradient;
  if (!check.Kind("dtable", dtable, gradient) || !check.Kind("tokens", tokens, DType::kInt32))
    return check.status();
  if (!check.Require(tokens.shape().rank() == 2, "tokens",
                     absl::StrCat("is ", tokens.shape().ToString(), ", expected [batch, seq]")) ||
      !check.Require(dtable.shape().rank() == 2, "dtable",
                     absl::StrCat("is ", dtable.shape().ToString(), ", expected [vocab, dim]"))) {
    return check.status();
  }
  check.Exactly("dout", dout, {tokens.dim(0), tokens.dim(1), dtable.dim(1)}, type);
  return check.status();
}

absl::Status ValidatePositionBackward(const Device& device, const Tensor& dout,
                                      const Tensor& dpositions) {
  Checker check("PositionBackward", device);
  SharedType type;
  SharedType gradient;
  if (!check.Kind("dout", dout, type) || !check.Kind("dpositions", dpositions, gradient))
    return check.status();
  if (!check.Require(
          dout.shape().rank() == 3, "dout",
          absl::StrCat("is ", dout.shape().ToString(), ", expected [batch, seq, dim]"))) {
    return check.status();
  }
  const int64_t seq = dout.dim(1);
  const int64_t dim = dout.dim(2);
  check.Require(
      dpositions.shape().rank() == 2 && dpositions.dim(0) >= seq && dpositions.dim(1) == dim,
      "dpositions",
      absl::StrCat("is ", dpositions.shape().ToString(), ", expected [at least ", seq, ", ", dim,
                   "]"));
  return check.status();
}

absl::Status ValidateLayerNorm(const Device& device, const LayerNormArgs& args) {
  Checker check("LayerNorm", device);
  SharedType type;
  CheckNorm(check, args, type);
  if (!check.status().ok()) return check.status();
  check.Exactly("beta", args.beta, args.gamma.shape(), type);
  check.Count("mean", args.mean, args.rstd.numel(), DType::kFloat32);
  return check.status();
}

absl::Status ValidateLayerNormBackward(const Device& device, const LayerNormBackwardArgs& args) {
  Checker check("LayerNormBackward", device);
  SharedType gradient;
  CheckNormBackward(check, args, gradient);
  if (!check.status().ok()) return check.status();
  check.Count("mean", args.mean, args.rstd.numel(), DType::kFloat32);
  if (args.dbeta.defined()) check.Exactly("dbeta", args.dbeta, args.gamma.shape(), gradient);
  return check.status();
}

absl::Status ValidateRmsNorm(const Device& device, const RmsNormArgs& args) {
  Checker check("RmsNorm", device);
  SharedType type;
  CheckNorm(check, args, type);
  return check.status();
}

absl::Status ValidateRmsNormBackward(const Device& device, const RmsNormBackwardArgs& args) {
  Checker check("RmsNormBackward", device);
  SharedType gradient;
  CheckNormBackward(check, args, gradient);
  return check.status();
}

absl::Status ValidateRope(const Device& device, const RopeArgs& args) {
  Checker check("Rope", device);
  if (!CheckAttentionShape(check, args.shape)) return check.status();
  check.Require(args.shape.head_dim % 2 == 0, "shape",
                absl::StrCat("has head_dim ", args.shape.head_dim, ", expected an even one"));
  check.Require(args.theta > 0 && std::isfinite(args.theta), "theta",
                absl::StrCat("is ", args.theta, ", expected a positive number"));
  SharedType type;
  CheckPacked(check, "qkv", args.qkv, args.shape, type);
  return check.status();
}

absl::Status ValidateAttention(const Device& device, const AttentionArgs& args) {
  Checker check("Attention", device);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(check, shape)) return check.status();
  SharedType type;
  CheckPacked(check, "qkv", args.qkv, shape, type);
  check.Rows("out", args.out, shape.batch * shape.seq, shape.heads * shape.head_dim, type);
  if (args.lse.defined())
    check.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  return check.status();
}

absl::Status ValidateAttentionBackward(const Device& device, const AttentionBackwardArgs& args) {
  Checker check("AttentionBackward", device);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(check, shape)) return check.status();
  SharedType type;
  const int64_t rows = shape.batch * shape.seq;
  check.Rows("dout", args.dout, rows, shape.heads * shape.head_dim, type);
  CheckPacked(check, "qkv", args.qkv, shape, type);
  check.Rows("out", args.out, rows, shape.heads * shape.head_dim, type);
  check.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  CheckPacked(check, "dqkv", args.dqkv, shape, type);
  return check.status();
}

absl::Status ValidateGelu(const Device& device, const Tensor& x, const Tensor& y) {
  Checker check("Gelu", device);
  SharedType type;
  if (check.Kind("x", x, type)) check.Exactly("y", y, x.shape(), type);
  return check.status();
}

absl::Status ValidateGeluBackward(const Device& device, const Tensor& x, const Tensor& dy,
                                  const Tensor& dx) {
  Checker check("GeluBackward", device);
  SharedType type;
  if (!check.Kind("x", x, type)) return check.status();
  check.Exactly("dy", dy, x.shape(), type);
  check.Exactly("dx", dx, x.shape(), type);
  return check.status();
}

absl::Status ValidateSwiGlu(const Device& device, const Tensor& gate_up, const Tensor& out) {
  Checker check("SwiGlu", device);
  SharedType type;
  if (!check.Kind("out", out, type) || !check.MinRank("out", out, 1)) return check.status();
  const Matrix flat(out);
  check.Rows("gate_up", gate_up, flat.rows, 2 * flat.cols, type);
  return check.status();
}

absl::Status ValidateSwiGluBackward(const Device& device, const Tensor& gate_up, const Tensor& dout,
                                    const Tensor& dgate_up) {
  Checker check("SwiGluBackward", device);
  SharedType type;
  if (!check.Kind("dout", dout, type) || !check.MinRank("dout", dout, 1)) return check.status();
  const Matrix flat(dout);
  check.Rows("gate_up", gate_up, flat.rows, 2 * flat.cols, type);
  check.Rows("dgate_up", dgate_up, flat.rows, 2 * flat.cols, type);
  return check.status();
}

absl::Status ValidateBasic(const Device& device, const BasicArgs& args) {
  Checker check("Basic", device);
  SharedType type;
  check.Inside("out", args.out, type);
  check.Require(args.group >= 1, "group", absl::StrCat("is ", args.group, ", expected at least 1"));
  if (!check.status().ok() || args.op == BasicOp::kFill) return check.status();
  const Matrix& out = args.out;
  const bool mean_gradient = args.op == BasicOp::kMeanBackward;
  check.Require(
      !mean_gradient || out.rows % args.group == 0, "out",
      absl::StrCat("has ", out.rows, " rows, expected a multiple of the group of ", args.group));
  const int64_t group = args.op == BasicOp::kMean ? args.group : 1;
  check.Sized("a", args.a, mean_gradient ? out.rows / args.group : out.rows * group, out.cols,
              type);
  switch (args.op) {
    case BasicOp::kMultiply:
    case BasicOp::kReluBackward:
    case BasicOp::kSiluBackward:
    case BasicOp::kTanhBackward:
    case BasicOp::kSigmoidBackward:
    case BasicOp::kSoftmaxBackward:
      check.Sized("b", args.b, out.rows, out.cols, type);
      break;
    case BasicOp::kDropout:
      check.Require(
          args.scalar >= 0 && args.scalar < 1, "scalar",
          absl::StrCat("is ", args.scalar, ", expected a rate of at least 0 and below 1"));
      break;
    default:
      break;
  }
  return check.status();
}

absl::Status ValidateAdd(const Device& device, const Tensor& a, const Tensor& b,
                         const Tensor& out) {
  Checker check("Add", device);
  SharedType type;
  if (!check.Kind("a", a, type)) return check.status();
  check.Exactly("b", b, a.shape(), type);
  check.Exactly("out", out, a.shape(), type);
  return check.status();
}

absl::Status ValidateScale(const Device& device, const Tensor& x) {
  Checker check("Scale", device);
  SharedType type;
  check.Kind("x", x, type);
  return check.status();
}

absl::Status ValidateLerp(const Device& device, const Tensor& x, const Tensor& target) {
  Checker check("Lerp", device);
  SharedType type;
  if (!check.Kind("x", x, type)) return check.status();
  check.Exactly("target", target, x.shape(), type);
  return check.status();
}

absl::Status ValidateCast(const Device& device, const Tensor& src, const Tensor& dst) {
  Checker check("Cast", device);
  if (!check.Place("src", src) || !check.Place("dst", dst)) return check.status();
  const auto require_float = [&check](const char* field, const Tensor& tensor) {
    check.Require(IsFloatingPoint(tensor.dtype()), field,
                  absl::StrCat("is ", DTypeName(tensor.dtype()), ", expected fp32, bf16 or fp16"));
  };
  require_float("src", src);
  require_float("dst", dst);
  check.Count("dst", dst, src.numel(), dst.dtype());
  return check.status();
}

namespace {

// `quantized` holds `pieces` of `count` values each.
void CheckQuantized(Checker& check, const Tensor& quantized, int64_t pieces, int64_t count,
                    int64_t block) {
  const bool sizes =
      check.Require(pieces >= 1, "pieces", absl::StrCat("is ", pieces, ", expected at least 1")) &&
      check.Require(block >= 1, "block", absl::StrCat("is ", block, ", expected at least 1 value"));
  if (!sizes) return;
  check.Exactly("quantized", quantized, {pieces * QuantizedBlocks{count, block}.bytes()},
                DType::kUInt8);
}

}  // namespace

absl::Status ValidateQuantize(const Device& device, const QuantizeArgs& args) {
  Checker check("Quantize", device);
  SharedType type;
  if (check.Kind("values", args.values, type)) {
    CheckQuantized(check, args.quantized, 1, args.values.numel(), args.block);
  }
  return check.status();
}

absl::Status ValidateDequantize(const Device& device, const DequantizeArgs& args) {
  Checker check("Dequantize", device);
  SharedType type;
  if (!check.Kind("values", args.values, type)) return check.status();
  const int64_t pieces = args.pieces;
  const bool divides = pieces < 1 || args.values.numel() % pieces == 0;
  if (check.Require(divides, "values",
                    absl::StrCat("is ", args.values.shape().ToString(), ", expected a multiple of ",
                                 pieces, " pieces"))) {
    CheckQuantized(check, args.quantized, pieces, pieces < 1 ? 0 : args.values.numel() / pieces,
                   args.block);
  }
  return check.status();
}

absl::Status ValidateSumQuantized(const Device& device, const SumQuantizedArgs& args) {
  Checker check("SumQuantized", device);
  SharedType type;
  if (!check.Kind("sum", args.sum, type)) return check.status();
  check.Require(!args.accumulate || args.sum.dtype() == DType::kFloat32, "sum",
                absl::StrCat("is ", DTypeName(args.sum.dtype()), ", expected fp32 to accumulate"));
  CheckQuantized(check, args.quantized, args.pieces, args.sum.numel(), args.block);
  return check.status();
}

absl::Status ValidateLinearCrossEntropy(const Device& device, const LinearCrossEntropyArgs& args) {
  Checker check("LinearCrossEntropy", device);
  SharedType type;
  SharedType gradient;
  if (!check.Kind("hidden", args.hidden, type) || !check.MinRank("hidden", args.hidden, 1))
    return check.status();
  const Matrix hidden(args.hidden);
  if (!check.Kind("weight", args.weight, type)) return check.status();
  check.Require(
      args.weight.shape().rank() == 2 && args.weight.dim(1) == hidden.cols, "weight",
      absl::StrCat("is ", args.weight.shape().ToString(), ", expected [vocab, ", hidden.cols, "]"));
  check.Count("targets", args.targets, hidden.rows, DType::kInt32);
  check.Count("loss", args.loss, 1, DType::kFloat32);
  if (args.dhidden.defined()) check.Rows("dhidden", args.dhidden, hidden.rows, hidden.cols, type);
  if (args.dweight.defined()) check.Exactly("dweight", args.dweight, args.weight.shape(), gradient);
  return check.status();
}

namespace {

// The moments and, if they are codes, their blocks' scales.
void CheckMoments(Checker& check, const AdamWArgs& args) {
  const bool is_coded = args.m.defined() && args.m.dtype() == DType::kUInt8;
  if (is_coded) {
    check.Exactly("m", args.m, args.param.shape(), DType::kUInt8);
    check.Exactly("v", args.v, args.param.shape(), DType::kUInt8);
    const int64_t blocks = (args.param.numel() + kMomentBlock - 1) / kMomentBlock;
    check.Count("m_scale", args.m_scale, blocks, DType::kFloat32);
    check.Count("v_scale", args.v_scale, blocks, DType::kFloat32);
  } else {
    check.Kept("m", args.m, args.param.shape());
    check.Exactly("v", args.v, args.param.shape(), args.m.dtype());
    check.Require(!args.m_scale.defined() && !args.v_scale.defined(), "m_scale",
                  "or v_scale is given, which belong to uint8 moments");
  }
  const int64_t multiple = is_coded ? kMomentBlock : 1;
  check.Require(args.first_element >= 0 && args.first_element % multiple == 0, "first_element",
                absl::StrCat("is ", args.first_element, ", expected a multiple of ", multiple,
                             ", at least 0"));
}

absl::Status ValidateRange(const Device& device, const AdamWArgs& args) {
  Checker check("AdamW", device);
  SharedType gradient;
  if (!check.Kept("param", args.param, args.param.shape())) return check.status();
  check.Exactly("grad", args.grad, args.param.shape(), gradient);
  CheckMoments(check, args);
  if (args.grad_factor.defined()) check.Count("grad_factor", args.grad_factor, 1, DType::kFloat32);
  if (args.coefficients.defined()) {
    check.Count("coefficients", args.coefficients, kAdamWCoefficients, DType::kFloat32);
  }
  check.Require(args.correction1 > 0, "correction1",
                absl::StrCat("is ", args.correction1, ", expected above 0"));
  check.Require(args.correction2 > 0, "correction2",
                absl::StrCat("is ", args.correction2, ", expected above 0"));
  return check.status();
}

}  // namespace

absl::Status ValidateAdamW(const Device& device, absl::Span<const AdamWArgs> ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const absl::Status status = ValidateRange(device, ranges[i]);
    if (status.ok()) continue;
    if (ranges.size() == 1) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), ", in range ", i, " of ", ranges.size()));
  }
  return absl::OkStatus();
}

absl::Status ValidateAddSquares(const Device& device, absl::Span<const Tensor> xs,
                                const Tensor& sum) {
  for (size_t i = 0; i < xs.size(); ++i) {
    Checker check("AddSquares", device);  // of its own: types may differ
    SharedType type;
    const std::string field = xs.size() == 1 ? "x" : absl::StrCat("xs[", i, "]");
    if (!check.Kind(field.c_str(), xs[i], type)) return check.status();
  }
  Checker check("AddSquares", device);
  check.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64);
  return check.status();
}

absl::Status ValidateClipFactor(const Device& device, const Tensor& sum, double scale,
                                double max_norm, const Tensor& norm_and_factor) {
  Checker check("ClipFactor", device);
  check.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64);
  check.Require(scale >= 0, "scale", absl::StrCat("is ", scale, ", expected 0 or more"));
  check.Require(!std::isnan(max_norm), "max_norm", "is NaN");
  check.Exactly("norm_and_factor", norm_and_factor, {2}, DType::kFloat32);
  return check.status();
}

namespace {

bool CheckOperand(Checker& check, const char* codes, const char* scale, const Fp8Operand& operand) {
  return check.Kind(codes, operand.codes, DType::kUInt8) &&
         check.Require(
             operand.codes.shape().rank() == 2 && operand.codes.dim(1) % kFp8Step == 0, codes,
             absl::StrCat("is ", operand.codes.shape().ToString(),
                          ", expected [rows, depth] with a depth in steps of ", kFp8Step)) &&
         check.Exactly(scale, operand.scale, {2}, DType::kFloat32);
}

// Tensor cores load 16 bytes at a time.
bool CheckAligned(Checker& check, const char* field, const Tensor& tensor) {
  return check.Require(reinterpret_cast<uintptr_t>(tensor.raw_data()) % kFp8Step == 0, field,
                       absl::StrCat("does not begin on a multiple of ", kFp8Step, " bytes"));
}

}  // namespace

absl::Status ValidateCastFp8(const Device& device, const CastFp8Args& args) {
  Checker check("CastFp8", device);
  SharedType type;
  if (!check.Inside("values", args.values, type)) return check.status();
  const int64_t rows = args.values.rows;
  const int64_t cols = args.values.cols;
  check.Require(args.codes.defined() || args.codes_transposed.defined(), "codes",
                "is undefined, and so is codes_transposed: there is nothing to write");
  if (args.codes.defined() && check.Exactly("codes", args.codes, {rows, cols}, DType::kUInt8)) {
    CheckAligned(check, "codes", args.codes);
  }
  if (args.codes_transposed.defined() &&
      check.Exactly("codes_transposed", args.codes_transposed, {cols, PaddedFp8Depth(rows)},
                    DType::kUInt8)) {
    CheckAligned(check, "codes_transposed", args.codes_transposed);
  }
  check.Exactly("scale", args.scale, {2}, DType::kFloat32);
  return check.status();
}

absl::Status ValidateFp8Gemm(const Device& device, const Fp8GemmArgs& args) {
  Checker check("Fp8Gemm", device);
  if (!CheckOperand(check, "a.codes", "a.scale", args.a) ||
      !CheckOperand(check, "b.codes", "b.scale", args.b)) {
    return check.status();
  }
  const int64_t m = args.a.codes.dim(0);
  const int64_t n = args.b.codes.dim(0);
  check.Exactly("b.codes", args.b.codes, {n, args.a.codes.dim(1)}, DType::kUInt8);
  check.Require(n % kFp8Step == 0, "b.codes",
                absl::StrCat("has ", n, " rows, expected them in steps of ", kFp8Step));
  check.Require(args.a.format == Fp8Format::kE4M3 || args.b.format == Fp8Format::kE4M3, "b.format",
                "is e5m2 as a's is, which no device multiplies");
  SharedType c;
  if (!check.Sized("c", args.c, m, n, c)) return check.status();
  check.Require(args.c.offset % kFp8Step == 0 && (m <= 1 || args.c.stride % kFp8Step == 0), "c",
                absl::StrCat("is at offset ", args.c.offset, " with rows ", args.c.stride,
                             " apart, expected both in steps of ", kFp8Step));
  CheckAligned(check, "a.codes", args.a.codes);
  CheckAligned(check, "b.codes", args.b.codes);
  CheckAligned(check, "c", args.c.tensor);
  if (args.bias.defined()) {
    check.Require(!args.accumulate, "accumulate", "excludes bias");
    check.Require(c.dtype != DType::kFloat32, "bias",
                  "beside c in fp32, expected c and bias in bf16 or fp16");
    if (check.Exactly("bias", args.bias, {n}, c)) CheckAligned(check, "bias", args.bias);
  }
  return check.status();
}

}  // namespace zeroth
