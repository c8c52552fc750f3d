// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/activation/testing/activation_reference.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/testing/gemm_reference.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

struct GemmCase {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::kNone;
  bool keep_pre_activation = false;
  bool gelu_backward = false;
  DType dtype = DType::kFloat32;    // of a, b and bias
  DType c_dtype = DType::kFloat32;  // of c, pre_activation and gelu_input
  int64_t padding = 0;              // up to this many foreign columns on each side of every matrix
  bool by_blas = false;             // cuBLASLt's matmuls and epilogues

  std::string ToString() const;
};

class GemmSuite : public KernelsSuite {
 protected:
  // Runs one matmul of random values and compares every element with the definition, within the
  // bound of any order of float32 additions and the one rounding of what is stored; foreign columns
  // of c must keep their bits.
  void Check(GemmCase test);
  // Checks the flags of `test` for every pair of types.
  void CheckTypes(GemmCase test);
  // Returns sizes up to `most` and a legal combination of flags, at random.
  GemmCase RandomCase(int64_t most);
};

namespace {

// A matrix that is columns [left, left + cols) of a wider tensor.
struct Padded {
  int64_t rows;
  int64_t cols;
  int64_t left;
  int64_t width;
  std::vector<float> values;  // [rows, width]

  std::vector<double> Inner() const {
    std::vector<double> inner;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) inner.push_back(values[r * width + left + c]);
    }
    return inner;
  }
};

std::vector<double> Magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// The inputs of one call, and the old values of its outputs.
struct Operands {
  Padded a;
  Padded b;
  Padded c;
  std::vector<float> bias;        // [n]
  std::vector<float> gelu_input;  // [m, n]
};

// Every element of op(a) op(b), and the sum of the magnitudes of its terms.
struct ExactMatmul {
  explicit ExactMatmul(const GemmCase& test, const Operands& in)
      : value(reference::Gemm(test.m, test.n, test.k, in.a.Inner(), test.transpose_a, in.b.Inner(),
                              test.transpose_b)),
        magnitude(reference::Gemm(test.m, test.n, test.k, Magnitudes(in.a.Inner()),
                                  test.transpose_a, Magnitudes(in.b.Inner()), test.transpose_b)) {}

  std::vector<double> value;
  std::vector<double> magnitude;
};

// One element of c: its exact value, and the allowed error of float32 before it is stored.
struct Element {
  double value;
  double error;
};

Element Expect(const GemmCase& test, const Operands& in, const ExactMatmul& exact, int64_t row,
               int64_t column, bool activated) {
  const double epsilon = std::ldexp(1.0, -24);
  const int64_t at = row * test.n + column;
  const double old = in.c.values[row * in.c.width + in.c.left + column];
  const double added = test.accumulate ? old : test.bias ? in.bias[column] : 0.0;
  const double sum = exact.value[at] + added;
  const double size = exact.magnitude[at] + std::abs(added);
  // The slope of both activations is below 1.13, and so is GELU's derivative; their own rounding is
  // a few units of the argument.
  double error = epsilon * (static_cast<double>(test.k + 4) * 1.13 * size + 8.0 * std::abs(sum));
  // cuBLASLt's epilogue uses an approximate tanh: an H200 was seen to be off by 3.6e-4 of the
  // argument. Where rows are not aligned, it rounds op(a) op(b) before bias and activation.
  if (test.by_blas && test.activation == Activation::kGelu && activated &&
      test.c_dtype != DType::kFloat32) {
    error += 5e-4 * std::abs(sum) + 1.13 * HalfUlp(test.c_dtype, exact.value[at]);
  }
  // cuBLASLt's epilogue multiplies by a derivative that was seen to be off by 1.1e-5 on an H100.
  if (test.gelu_backward && test.by_blas) error += 3e-5 * std::abs(sum);
  if (test.gelu_backward) return {sum * reference::GeluDerivative(in.gelu_input[at]), error};
  return {activated ? reference::Activate(test.activation, sum) : sum, error};
}

void CompareElement(const GemmCase& test, float actual, const Element& expected) {
  // cuBLASLt's epilogue rounds the derivative, too: an H100 was seen to be off by 1.05 ulps.
  const double roundings = test.gelu_backward && test.by_blas ? 3 : 1;
  const double rounding =
      test.c_dtype == DType::kFloat32 ? 0.0 : roundings * HalfUlp(test.c_dtype, expected.value);
  ASSERT_NEAR(actual, expected.value, expected.error + rounding);
}

void Compare(const GemmCase& test, const Operands& in, const std::vector<float>& c,
             const std::vector<float>& pre_activation) {
  const ExactMatmul exact(test, in);
  for (int64_t row = 0; row < test.m; ++row) {
    for (int64_t column = 0; column < in.c.width; ++column) {
      const int64_t at = row * in.c.width + column;
      const int64_t inner = column - in.c.left;
      SCOPED_TRACE(absl::StrCat("row ", row, ", column ", inner));
      if (inner < 0 || inner >= test.n) {
        ASSERT_EQ(c[at], in.c.values[at]) << "a column beside c was written";
        continue;
      }
      CompareElement(test, c[at], Expect(test, in, exact, row, inner, true));
      if (test.keep_pre_activation) {
        SCOPED_TRACE("pre_activation");
        CompareElement(test, pre_activation[row * test.n + inner],
                       Expect(test, in, exact, row, inner, false));
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace

std::string GemmCase::ToString() const {
  return absl::StrCat("m = ", m, ", n = ", n, ", k = ", k, transpose_a ? ", a transposed" : "",
                      transpose_b ? ", b transposed" : "", accumulate ? ", accumulated" : "",
                      bias ? ", bias" : "", ", activation ", static_cast<int>(activation),
                      keep_pre_activation ? ", pre_activation" : "",
                      gelu_backward ? ", gelu_input" : "", ", padding ", padding, ", ",
                      DTypeName(dtype), " to ", DTypeName(c_dtype));
}

void GemmSuite::Check(GemmCase test) {
  test.by_blas = std::string(GetParam()) == "cuda";
  SCOPED_TRACE(test.ToString());
  const auto random = [&](int64_t rows, int64_t cols, DType dtype) {
    Padded matrix{rows, cols, RandomSize(0, test.padding), 0, {}};
    matrix.width = matrix.left + cols + RandomSize(0, test.padding);
    matrix.values = RoundTo(dtype, RandomNormal(rows * matrix.width));
    return matrix;
  };
  Operands in;
  in.a = test.transpose_a ? random(test.k, test.m, test.dtype) : random(test.m, test.k, test.dtype);
  in.b = test.transpose_b ? random(test.n, test.k, test.dtype) : random(test.k, test.n, test.dtype);
  in.c = random(test.m, test.n, test.c_dtype);
  in.bias = RoundTo(test.dtype, RandomNormal(test.n));
  in.gelu_input = RoundTo(test.c_dtype, RandomNormal(test.m * test.n, 2.0f));
  const auto upload = [&](const Padded& matrix, DType dtype) {
    const Tensor tensor = Upload({matrix.rows, matrix.width}, matrix.values, dtype);
    return Matrix(tensor).Columns(matrix.left, matrix.cols);
  };
  GemmArgs args;
  args.a = upload(in.a, test.dtype);
  args.b = upload(in.b, test.dtype);
  args.c = upload(in.c, test.c_dtype);
  args.transpose_a = test.transpose_a;
  args.transpose_b = test.transpose_b;
  args.accumulate = test.accumulate;
  if (test.bias) args.bias = Upload({test.n}, in.bias, test.dtype);
  args.activation = test.activation;
  if (test.keep_pre_activation) args.pre_activation = Unwritten({test.m, test.n}, test.c_dtype);
  if (test.gelu_backward) args.gelu_input = Upload({test.m, test.n}, in.gelu_input, test.c_dtype);
  const absl::Status status = kernels::Gemm(kernels(), args);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<float> pre_activation;
  if (test.keep_pre_activation) pre_activation = Download(args.pre_activation);
  Compare(test, in, Download(args.c.tensor), pre_activation);
}

void GemmSuite::CheckTypes(GemmCase test) {
  for (const TypePair& types : kTypePairs) {
    test.dtype = types.dtype;
    test.c_dtype = types.grad_dtype;
    Check(test);
    if (HasFatalFailure()) return;
  }
}

GemmCase GemmSuite::RandomCase(int64_t most) {
  constexpr Activation kActivations[] = {Activation::kNone, Activation::kGelu, Activation::kSilu};
  GemmCase test{RandomSize(1, most), RandomSize(1, most), RandomSize(1, most)};
  test.transpose_a = RandomSize(0, 1) == 1;
  test.transpose_b = RandomSize(0, 1) == 1;
  test.padding = RandomSize(0, 1) * 19;
  test.accumulate = RandomSize(0, 3) == 0;
  test.gelu_backward = !test.accumulate && RandomSize(0, 3) == 0;
  if (test.accumulate || test.gelu_backward) return test;
  test.bias = RandomSize(0, 1) == 1;
  test.activation = kActivations[RandomSize(0, 2)];
  test.keep_pre_activation = test.activation == Activation::kGelu && RandomSize(0, 1) == 1;
  return test;
}

TEST_P(GemmSuite, RandomShapesStridesAndFlags) {
  for (int i = 0; i < 80; ++i) {
    CheckTypes(RandomCase(70));
    if (HasFatalFailure()) return;
  }
}

TEST_P(GemmSuite, SizesBeyondOneTile) {
  CheckTypes({257, 193, 401, false, false, false, true, Activation::kGelu, true, false,
              DType::kFloat32, DType::kFloat32, 3});
  CheckTypes({129, 515, 67, true, false, true});
  CheckTypes({67, 300, 389, false, true});
  CheckTypes({260, 130, 70, false, true, false, false, Activation::kNone, false, true});
}

TEST_P(GemmSuite, ZeroSizes) {
  for (const int64_t zero : {0, 1, 2}) {
    for (const bool accumulate : {false, true}) {
      GemmCase test{5, 7, 3};
      (zero == 0 ? test.m : zero == 1 ? test.n : test.k) = 0;
      test.accumulate = accumulate;
      CheckTypes(test);
      test.padding = 2;
      test.bias = !accumulate;
      test.activation = accumulate ? Activation::kNone : Activation::kGelu;
      test.keep_pre_activation = !accumulate;
      CheckTypes(test);
    }
  }
}

TEST_P(GemmSuite, OldContentsOfCDoNotMatterUnlessAccumulated) {
  for (const DType dtype : kElementTypes) {
    const Tensor c = Unwritten({3, 5}, dtype);
    GemmArgs args;
    args.a = Upload({3, 4}, RandomNormal(12), dtype);
    args.b = Upload({4, 5}, RandomNormal(20), dtype);
    args.c = c;
    ASSERT_TRUE(kernels::Gemm(kernels(), args).ok());
    for (const float value : Download(c)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(GemmSuite, NanIsNotHidden) {
  for (const DType dtype : kElementTypes) {
    for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kSilu}) {
      std::vector<float> a = RandomNormal(12);
      a[5] = std::numeric_limits<float>::quiet_NaN();  // in row 1
      GemmArgs args;
      args.a = Upload({3, 4}, a, dtype);
      args.b = Upload({4, 5}, RandomNormal(20), dtype);
      const Tensor c = Upload({3, 5}, RandomNormal(15), dtype);
      args.c = c;
      args.activation = activation;
      ASSERT_TRUE(kernels::Gemm(kernels(), args).ok());
      const std::vector<float> result = Download(c);
      for (size_t i = 0; i < result.size(); ++i) EXPECT_EQ(std::isnan(result[i]), i / 5 == 1) << i;
    }
  }
}

TEST_P(GemmSuite, SameBitsEveryTime) {
  for (const DType dtype : kElementTypes) {
    const Tensor a = Upload({100, 300}, RandomNormal(100 * 300), dtype);
    const Tensor b = Upload({300, 90}, RandomNormal(300 * 90), dtype);
    std::vector<float> first;
    for (int i = 0; i < 4; ++i) {
      GemmArgs args;
      args.a = a;
      args.b = b;
      const Tensor c = Unwritten({100, 90}, dtype);
      args.c = c;
      ASSERT_TRUE(kernels::Gemm(kernels(), args).ok());
      if (i == 0) first = Download(c);
      EXPECT_EQ(Download(c), first);
    }
  }
}

TEST_P(GemmSuite, RefusesWhatDoesNotFit) {
  GemmArgs args;
  args.a = Upload({3, 4}, RandomNormal(12));
  args.b = Upload({5, 6}, RandomNormal(30));
  args.c = Upload({3, 6}, RandomNormal(18));
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "b"});
  args.b = Upload({4, 6}, RandomNormal(24));
  args.bias = Upload({5}, RandomNormal(5));
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "bias", "6"});
  args.bias = Upload({6}, RandomNormal(6));
  args.accumulate = true;
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "accumulate"});
  args.accumulate = false;
  args.c = Upload({2, 6}, RandomNormal(12));
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "c"});
  args.c = UploadTokens({3, 6}, std::vector<int32_t>(18));
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "c", "int32"});
}

TEST_P(GemmSuite, RefusesTypesAndEpiloguesThatDoNotFit) {
  GemmArgs args;
  args.a = Upload({3, 4}, RandomNormal(12), DType::kBFloat16);
  args.b = Upload({4, 6}, RandomNormal(24));
  args.c = Upload({3, 6}, RandomNormal(18), DType::kBFloat16);
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "b", "fp32", "bf16"});
  args.b = Upload({4, 6}, RandomNormal(24), DType::kBFloat16);
  args.bias = Upload({6}, RandomNormal(6));
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "bias", "fp32", "bf16"});
  args.bias = Tensor();
  args.pre_activation = Unwritten({3, 6}, DType::kBFloat16);
  ExpectInvalid(kernels::Gemm(kernels(), args),
                {"Gemm", "pre_activation"});  // without an activation
  args.activation = Activation::kGelu;
  args.pre_activation = Unwritten({3, 5}, DType::kBFloat16);
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "pre_activation", "6"});
  args.pre_activation = Unwritten({3, 6});
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "pre_activation", "fp32", "bf16"});
  args.pre_activation = Tensor();
  args.gelu_input = Unwritten({3, 6}, DType::kBFloat16);
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "gelu_input"});  // with an activation
  args.activation = Activation::kNone;
  args.accumulate = true;
  ExpectInvalid(kernels::Gemm(kernels(), args), {"Gemm", "gelu_input"});
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmSuite, testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
