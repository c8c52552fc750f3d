// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/preference/preference.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth {

PreferenceStatistics PreferenceStatistics::FromMeans(const float* means, bool of_judgements) {
  PreferenceStatistics s{means[0], means[1], means[2], means[3]};
  if (!of_judgements) return s;
  s.kl = means[kKl];
  s.desirable = means[5];
  if (s.desirable > 0) s.reward_chosen /= s.desirable;
  if (s.desirable < 1) s.reward_rejected /= 1 - s.desirable;
  return s;
}

namespace kernels {

absl::Status PreferenceLoss(Kernels& kernels, const PreferenceLossArgs& args) {
  Operation op("PreferenceLoss", kernels);
  const PreferenceOptions& options = args.options;
  op.Require(options.beta > 0 && std::isfinite(options.beta), "beta",
             absl::StrCat("is ", options.beta, ", expected a finite number above 0"));
  op.Require(options.label_smoothing >= 0 && options.label_smoothing < 0.5f, "label_smoothing",
             absl::StrCat("is ", options.label_smoothing, ", expected at least 0 and below 0.5"));
  op.Require(options.gamma >= 0 && std::isfinite(options.gamma), "gamma",
             absl::StrCat("is ", options.gamma, ", expected a finite number of at least 0"));
  op.Require(options.center >= 0 && std::isfinite(options.center), "center",
             absl::StrCat("is ", options.center, ", expected a finite number of at least 0"));
  op.Require(options.kind == PreferenceKind::kReward || options.center == 0, "center",
             "is given, and only rewards have it");
  op.Require(options.kind != PreferenceKind::kReward || options.beta == 1, "beta",
             absl::StrCat("is ", options.beta, ", expected 1 for rewards"));
  for (const float weight : {options.desirable_weight, options.undesirable_weight}) {
    op.Require(weight >= 0 && std::isfinite(weight), "a judgement's weight",
               absl::StrCat("is ", weight, ", expected a finite number of at least 0"));
  }
  if (!op.Kind("losses", args.losses, DType::kFloat32)) return op.status();
  const int64_t rows = args.losses.numel();
  op.Require(args.reference.defined() == UsesReference(options.kind), "reference",
             UsesReference(options.kind) ? "is undefined, expected the reference's losses"
                                         : "is given, and this loss has none");
  if (args.reference.defined()) op.Count("reference", args.reference, rows, DType::kFloat32);
  op.Count("targets", args.targets, rows, DType::kInt32);
  if (!op.Kind("pairs", args.pairs, DType::kInt32)) return op.status();
  const int64_t pairs = args.pairs.numel() / 3;
  op.Count("pairs", args.pairs, pairs * 3, DType::kInt32);
  const bool is_kto = options.kind == PreferenceKind::kKto;
  op.Require(args.labels.defined() == is_kto, "labels",
             is_kto ? "is undefined, expected one for each judged answer"
                    : "is given, and this loss has none");
  if (args.labels.defined()) op.Count("labels", args.labels, pairs, DType::kInt32);
  op.Require(is_kto || !args.kl.defined(), "kl", "is given, and this loss has none");
  if (args.kl.defined() && !op.Kind("kl", args.kl, DType::kFloat32)) return op.status();
  op.Count("divisor", args.divisor, 1, DType::kFloat32);
  op.Count("statistics", args.statistics, PreferenceStatistics::kCount, DType::kFloat32);
  op.Count("row_weights", args.row_weights, rows, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(PreferenceLossCall{
      options, rows, pairs, args.losses.data<float>(), DataOrNull(args.reference),
      args.targets.data<int32_t>(), args.pairs.data<int32_t>(), DataOrNull<int32_t>(args.labels),
      DataOrNull(args.kl), args.kl.defined() ? args.kl.numel() : 0, args.divisor.data<float>(),
      args.statistics.data<float>(), args.row_weights.data<float>()});
}

}  // namespace kernels
}  // namespace zeroth
