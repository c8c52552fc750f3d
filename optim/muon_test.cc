// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/optim/clip_grad_norm.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using Values = std::map<std::string, std::vector<float>>;

// Two blocks with matrices of all shapes, and a root.
struct Toy {
  Parameter table{"table", Shape({50, 8})};
  Parameter wide{"h.0.wide", Shape({24, 40})};
  Parameter tall{"h.0.tall", Shape({41, 24})};
  Parameter bias{"h.0.bias", Shape({40})};
  Parameter row{"h.1.row", Shape({1, 17})};
  Parameter column{"h.1.column", Shape({19, 1})};
  Parameter square{"h.1.square", Shape({16, 16})};
  Parameter experts{"h.1.experts", Shape({3, 5, 12})};
  Parameter scale{"h.1.scale", Shape({7})};

  std::vector<Parameter*> all() {
    return {&table, &wide, &tall, &bias, &row, &column, &square, &experts, &scale};
  }
  std::vector<UnitSpec> Units() {
    UnitSpec root{"root", {&table}};
    root.is_root = true;
    return {
        root, {"h.0", {&wide, &tall, &bias}}, {"h.1", {&row, &column, &square, &experts, &scale}}};
  }
};

std::vector<float> Drawn(const std::string& name, int64_t numel) {
  std::vector<float> values(static_cast<size_t>(numel));
  CounterRng(7, name).FillNormal(0, 1.0f, absl::MakeSpan(values));
  return values;
}

std::vector<float> GradientOf(const Parameter& parameter, int step) {
  return Drawn(absl::StrCat(parameter.name(), " gradient ", step), parameter.numel());
}

struct Case {
  std::string strategy = "full_shard";
  int world_size = 1;
  int shard_size = 0;
  LayoutKind layout = LayoutKind::kFlat;
  bool over_world = false;
  OptimizerOptions options = {};
  std::vector<ParameterGroup> groups = {};
  int steps = 3;
  double clip = 1.0;
  float gradient_scale = 1.0f;
  std::string frozen = {};  // between the steps 1 and 2
  int skipped = -1;         // a step with a NaN
  // Called on each rank before the first step, and after the last one.
  std::function<void(Communicator&, Sharding&, Muon&)> before = nullptr;
  std::function<void(Communicator&, Sharding&, Muon&)> after = nullptr;
};

OptimizerOptions Options() {
  OptimizerOptions options;
  options.lr = 0.01;
  options.muon.lr = 0.02;
  return options;
}

absl::Status Step(Sharding& sharding, Toy& toy, Kernels& kernels, Muon& optimizer,
                  const Case& setup, int step) {
  Scheduler& scheduler = sharding.scheduler();
  for (Unit* unit : sharding.units()) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*unit));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*unit));
  }
  for (Unit* unit : sharding.units()) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*unit));
    for (Parameter* parameter : unit->parameters()) {
      if (!parameter->requires_grad()) continue;
      ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, parameter->TakeGradient());
      std::vector<float> gradient = GradientOf(*parameter, step);
      for (float& g : gradient) g *= setup.gradient_scale;
      if (step == setup.skipped) gradient[0] = std::numeric_limits<float>::quiet_NaN();
      std::copy(gradient.begin(), gradient.end(), slot.tensor.data<float>());
    }
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*unit));
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor norm, GradNormAndScale(sharding, kernels, setup.clip));
  ZEROTH_RETURN_IF_ERROR(optimizer.Step(setup.options.lr, 1.0, norm.View(1, Shape({1}))));
  if (step == setup.skipped) optimizer.ForgetSkippedStep();
  for (Parameter* parameter : toy.all()) {
    if (parameter->name() == setup.frozen) parameter->set_requires_grad(step != 0);
  }
  return scheduler.EndStep();
}

absl::Status Train(Communicator& world, const Case& setup, Values& values) {
  ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
  ZEROTH_ASSIGN_OR_RETURN(const auto kernels,
                          KernelRegistry::Create(*device, device->compute_stream()));
  Toy toy;
  ShardingOptions options;
  options.strategy = setup.strategy;
  options.strategy_options.shard_size = setup.shard_size;
  options.strategy_options.shard_optimizer_over_world = setup.over_world;
  options.layout = setup.layout;
  ZEROTH_ASSIGN_OR_RETURN(const auto sharding,
                          Sharding::Create(world, *device, options, toy.Units()));
  ZEROTH_RETURN_IF_ERROR(
      sharding->Load([](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        const std::vector<float> all = Drawn(parameter.name(), parameter.numel());
        std::copy_n(all.begin() + begin, out.size(), out.begin());
        return absl::OkStatus();
      }));
  ZEROTH_ASSIGN_OR_RETURN(const auto optimizer,
                          Muon::Create(*sharding, *kernels, setup.options, setup.groups));
  if (setup.before) setup.before(world, *sharding, *optimizer);
  for (int step = 0; step < setup.steps; ++step) {
    ZEROTH_RETURN_IF_ERROR(Step(*sharding, toy, *kernels, *optimizer, setup, step));
  }
  if (setup.after) setup.after(world, *sharding, *optimizer);
  return sharding->VisitFull(
      [&](const Parameter& parameter, int64_t, absl::Span<const float> whole) {
        if (world.rank() == 0) values[parameter.name()].assign(whole.begin(), whole.end());
        return absl::OkStatus();
      });
}

Values Trained(const Case& setup) {
  Values values;
  const absl::Status status = RunLocalRanks(
      setup.world_size, [&](Communicator& world) { return Train(world, setup, values); });
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

// Computes the definition for one matrix, in float64.
std::vector<double> Reference(std::vector<double> x, int64_t rows, int64_t columns, int steps) {
  const auto at = [](int64_t width, int64_t i, int64_t j) {
    return static_cast<size_t>(i * width + j);
  };
  if (rows > columns) {
    std::vector<double> transposed(x.size());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) transposed[at(rows, j, i)] = x[at(columns, i, j)];
    }
    const std::vector<double> result = Reference(transposed, columns, rows, steps);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) x[at(columns, i, j)] = result[at(rows, j, i)];
    }
    return x;
  }
  const double norm = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  for (double& v : x) v /= std::max(norm, 1e-7);
  const auto multiply = [&](const std::vector<double>& s, const std::vector<double>& y,
                            int64_t width) {
    std::vector<double> product(static_cast<size_t>(rows * width));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < rows; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          product[at(width, i, j)] += s[at(rows, i, k)] * y[at(width, k, j)];
        }
      }
    }
    return product;
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<double> s(static_cast<size_t>(rows * rows));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        for (int64_t k = 0; k < columns; ++k) {
          s[at(rows, i, j)] += x[at(columns, i, k)] * x[at(columns, j, k)];
        }
      }
    }
    std::vector<double> b = multiply(s, s, rows);
    for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * s[i] + 2.0315 * b[i];
    const std::vector<double> bx = multiply(b, x, columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  return x;
}

// Returns the result of `setup`, in float64, for one matrix [rows, columns] that starts at `begin`
// of a parameter.
std::vector<double> ReferenceTraining(const Parameter& parameter, const Case& setup, int64_t begin,
                                      int64_t rows, int64_t columns, double scale) {
  Toy toy;
  const std::vector<float> start = Drawn(parameter.name(), parameter.numel());
  const auto numel = static_cast<size_t>(rows * columns);
  std::vector<double> w(start.begin() + begin, start.begin() + begin + rows * columns);
  std::vector<double> m(numel);
  const MuonOptions& muon = setup.options.muon;
  for (int step = 0; step < setup.steps; ++step) {
    double squares = 0;
    for (const Parameter* each : toy.all()) {
      for (const float g : GradientOf(*each, step)) {
        squares += static_cast<double>(g) * static_cast<double>(g);
      }
    }
    const double clip = std::min(1.0, setup.clip / (std::sqrt(squares) + 1e-6));
    const std::vector<float> gradient = GradientOf(parameter, step);
    std::vector<double> u(numel);
    for (size_t i = 0; i < numel; ++i) {
      const double g = clip * static_cast<double>(gradient[i + static_cast<size_t>(begin)]);
      m[i] = muon.momentum * m[i] + (1 - muon.momentum) * g;
      u[i] = muon.momentum * m[i] + (1 - muon.momentum) * g;
    }
    const std::vector<double> x = Reference(u, rows, columns, muon.ns_steps);
    for (size_t i = 0; i < numel; ++i) {
      w[i] -= muon.lr * (setup.options.weight_decay * w[i] + scale * x[i]);
    }
  }
  return w;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double tolerance, const std::string& what) {
  double distance = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    distance += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  EXPECT_LE(std::sqrt(distance), tolerance * std::sqrt(size)) << what;
}

double MatchRms(int64_t rows, int64_t columns) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
}

TEST(MuonTest, IsItsDefinition) {
  Case setup;
  setup.options = Options();
  for (const int ns_steps : {1, 4, 5}) {
    setup.options.muon.ns_steps = ns_steps;
    const Values trained = Trained(setup);
    Toy toy;
    for (const Parameter* p : {&toy.wide, &toy.tall, &toy.row, &toy.column, &toy.square}) {
      const int64_t rows = p->shape().dim(0);
      const int64_t columns = p->shape().dim(1);
      ExpectNear(trained.at(p->name()),
                 ReferenceTraining(*p, setup, 0, rows, columns, MatchRms(rows, columns)), 1e-5,
                 p->name());
    }
    const std::vector<float>& experts = trained.at("h.1.experts");
    for (int64_t i = 0; i < 3; ++i) {
      ExpectNear({experts.begin() + 60 * i, experts.begin() + 60 * (i + 1)},
                 ReferenceTraining(toy.experts, setup, 60 * i, 5, 12, MatchRms(5, 12)), 1e-5,
                 absl::StrCat("expert ", i));
    }
  }
}

TEST(MuonTest, SpectralScaleAndBf16Matmuls) {
  Case setup;
  setup.options = Options();
  setup.options.muon.scale = MuonScale::kSpectral;
  Toy toy;
  Values trained = Trained(setup);
  // [out, in]
  ExpectNear(trained.at("h.0.tall"),
             ReferenceTraining(toy.tall, setup, 0, 41, 24, std::sqrt(41.0 / 24)), 1e-5, "tall");
  ExpectNear(trained.at("h.0.wide"), ReferenceTraining(toy.wide, setup, 0, 24, 40, 1.0), 1e-5,
             "wide");
  setup.options.muon.precision = DType::kBFloat16;
  trained = Trained(setup);
  ExpectNear(trained.at("h.0.tall"),
             ReferenceTraining(toy.tall, setup, 0, 41, 24, std::sqrt(41.0 / 24)), 3e-3, "tall");
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const int world_size : {1, 2, 3, 4, 8}) {
    for (const LayoutKind layout : {LayoutKind::kFlat, LayoutKind::kRows}) {
      for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
        cases.push_back({strategy, world_size, 0, layout});
      }
      if (world_size < 4) continue;
      cases.push_back({"hybrid_shard", world_size, 2, layout});
      if (layout == LayoutKind::kFlat)
        cases.push_back({"hybrid_shard", world_size, 2, layout, true});
    }
  }
  for (Case& setup : cases) setup.options = Options();
  return cases;
}

std::string NameOf(const Case& setup) {
  return absl::StrCat(setup.strategy, setup.over_world ? " over world" : "", " ", setup.world_size,
                      setup.layout == LayoutKind::kRows ? " rows" : "");
}

// Matrices are divided by their norms before anything may overflow or vanish.
TEST(MuonTest, APowerOfTwoInTheGradientsChangesNoBit) {
  Case setup;
  setup.options = Options();
  setup.clip = 0;
  for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
    setup.options.muon.precision = precision;
    setup.world_size = 1;
    setup.gradient_scale = 1;
    const Values expected = Trained(setup);
    for (const auto& [world_size, layout] :
         {std::pair(1, LayoutKind::kFlat), std::pair(2, LayoutKind::kFlat),
          std::pair(2, LayoutKind::kRows)}) {
      setup.world_size = world_size;
      setup.layout = layout;
      for (const float scale : {0x1p-18f, 0x1p28f, 0x1p34f, 0x1p58f}) {
        setup.gradient_scale = scale;
        const Values trained = Trained(setup);
        for (const char* name :
             {"h.0.wide", "h.0.tall", "h.1.row", "h.1.column", "h.1.square", "h.1.experts"}) {
          EXPECT_EQ(trained.at(name), expected.at(name))
              << name << " in " << NameOf(setup) << ", gradients times " << scale;
        }
      }
    }
  }
}

// No result depends on the sharding, and each matrix is computed once.
TEST(MuonTest, TheSameBitsHoweverSharded) {
  // The key: whether three gradients are averaged, since their mean is rounded.
  std::map<bool, Values> references;
  for (Case setup : AllCases()) {
    SCOPED_TRACE(NameOf(setup));
    std::mutex mutex;
    std::vector<std::string> computed;
    setup.after = [&](Communicator&, Sharding&, Muon& optimizer) {
      const std::lock_guard<std::mutex> lock(mutex);
      for (const std::string& name : optimizer.own_matrices()) computed.push_back(name);
    };
    const Values trained = Trained(setup);
    const Values& expected = references.emplace(setup.world_size == 3, trained).first->second;
    for (const auto& [name, values] : expected) {
      ASSERT_EQ(trained.at(name).size(), values.size());
      EXPECT_EQ(std::memcmp(trained.at(name).data(), values.data(), values.size() * sizeof(float)),
                0)
          << name;
    }
    EXPECT_THAT(computed,
                UnorderedElementsAre("h.0.wide", "h.0.tall", "h.1.row", "h.1.column", "h.1.square",
                                     "h.1.experts[0]", "h.1.experts[1]", "h.1.experts[2]"));
  }
}

// docs/optimizers.md: in each round an all-to-all in and one out among the owners of one copy, then
// a broadcast from each copy that computed something.
TEST(MuonTest, ExchangesWhatTheTableSays) {
  struct Calls {
    size_t matrices = 0;
    size_t all_to_alls = 0;
    size_t broadcasts = 0;
    int64_t in = 0;
    int64_t out = 0;
  };
  for (Case setup : AllCases()) {
    SCOPED_TRACE(NameOf(setup));
    setup.steps = 1;
    setup.before = [](Communicator&, Sharding& sharding, Muon&) {
      for (Communicator* group : sharding.communicators()) group->stats().EnableRecord(true);
    };
    std::mutex mutex;
    std::vector<Calls> ranks;
    int owners = 0;
    int copies = 0;
    setup.after = [&](Communicator&, Sharding& sharding, Muon& optimizer) {
      Calls calls;
      calls.matrices = optimizer.own_matrices().size();
      for (Communicator* group : sharding.communicators()) {
        for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
          if (!absl::StartsWith(entry.label, "muon ")) continue;
          if (entry.op == CollectiveOp::kAllToAll) ++calls.all_to_alls;
          if (entry.op == CollectiveOp::kBroadcast) ++calls.broadcasts;
          (absl::EndsWith(entry.label, " in") ? calls.in : calls.out) += entry.bytes;
        }
      }
      const std::lock_guard<std::mutex> lock(mutex);
      ranks.push_back(calls);
      owners = sharding.units()[1]->mesh().owner_count();
      copies = setup.world_size / owners;
    };
    Trained(setup);
    size_t rounds = 0;
    Calls sum;
    for (const Calls& rank : ranks) {
      rounds = std::max(rounds, rank.matrices);
      sum.matrices += rank.matrices;
      sum.in += rank.in;
      sum.out += rank.out;
    }
    EXPECT_EQ(sum.matrices, 8u);
    for (const Calls& rank : ranks) {
      EXPECT_EQ(rank.all_to_alls, owners == 1 ? 0 : 2 * rounds);
      if (copies == 1) {
        EXPECT_EQ(rank.broadcasts, 0u);
      }
      if (copies > 1 && owners == 1) {
        EXPECT_EQ(rank.broadcasts, 8u) << "one for each matrix";
      }
      if (copies > 1) {
        EXPECT_LE(rank.broadcasts, rounds * static_cast<size_t>(copies));
      }
    }
    if (copies == 1) {
      EXPECT_EQ(sum.in, sum.out) << "what comes in goes out";
    }
  }
}

TEST(MuonTest, WorkIsBalancedByCost) {
  EXPECT_THAT(AssignByCost({1, 9, 4, 4, 1}, 2),
              ElementsAre(ElementsAre(1, 4), ElementsAre(2, 3, 0)));
  EXPECT_THAT(AssignByCost({1, 1}, 3), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre()));
  EXPECT_THAT(AssignByCost({}, 2), ElementsAre(ElementsAre(), ElementsAre()));
  const Parameter wide("h.0.w", Shape({8, 32}));
  EXPECT_EQ(MatricesOf(wide, {})[0].cost(), 8.0 * 8 * 32);
  const Parameter tall("h.0.w", Shape({32, 8}));
  EXPECT_EQ(MatricesOf(tall, {})[0].cost(), 8.0 * 8 * 32);
}

TEST(MuonTest, PatternsChoose) {
  const Parameter in_block("h.3.w", Shape({2, 2}));
  const Parameter table("wte.weight", Shape({2, 2}));
  const Parameter bias("h.3.b", Shape({2}));
  MuonOptions options;
  EXPECT_TRUE(UsesMuon(in_block, options));
  EXPECT_FALSE(UsesMuon(table, options));
  EXPECT_FALSE(UsesMuon(bias, options));
  EXPECT_TRUE(UsesMuon(Parameter("h.3.experts", Shape({3, 2, 2})), options));
  EXPECT_FALSE(UsesMuon(Parameter("h.3.conv1d.weight", Shape({6, 1, 4})), options));
  options.patterns = {"wte*", "*.b"};
  EXPECT_FALSE(UsesMuon(in_block, options));
  EXPECT_TRUE(UsesMuon(table, options));
  EXPECT_FALSE(UsesMuon(bias, options));
}

TEST(MuonTest, QueriesKeysAndValuesMayBeApart) {
  Parameter qkv("h.0.c_attn.weight", Shape({6, 16}));
  qkv.set_matrix({true, {8, 4, 4}, 4});
  const auto columns = [&](bool split, bool per_head) {
    MuonOptions options;
    options.split_qkv = split;
    options.per_head = per_head;
    std::vector<std::pair<int64_t, int64_t>> result;
    const std::vector<MuonMatrix> matrices = MatricesOf(qkv, options);
    for (const MuonPart& part : matrices[0].parts) {
      EXPECT_EQ(part.rows, 6);
      EXPECT_EQ(part.row, 0);
      result.emplace_back(part.column, part.columns);
    }
    return result;
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_THAT(columns(false, false), ElementsAre(Pair(0, 16)));
  EXPECT_THAT(columns(true, false), ElementsAre(Pair(0, 8), Pair(8, 4), Pair(12, 4)));
  EXPECT_THAT(columns(false, true), ElementsAre(Pair(0, 4), Pair(4, 4), Pair(8, 4), Pair(12, 4)));
  Parameter query("h.0.q_proj.weight", Shape({8, 6}));
  query.set_matrix({false, {}, 4});
  MuonOptions options;
  options.per_head = true;
  const std::vector<MuonPart> heads = MatricesOf(query, options)[0].parts;
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[1].row, 4);
  EXPECT_EQ(heads[1].rows, 4);
  EXPECT_EQ(heads[1].columns, 6);
}

TEST(MuonTest, GroupsScaleItsRateAndDecayToo) {
  Case setup;
  setup.options = Options();
  ParameterGroup group;
  group.pattern = "h.0.*";
  group.lr_scale = 0.5;
  group.weight_decay = 0.3;
  setup.groups = {group};
  const Values trained = Trained(setup);
  Toy toy;
  Case equal = setup;
  equal.options.muon.lr *= 0.5;
  equal.options.weight_decay = 0.3;
  ExpectNear(trained.at("h.0.wide"),
             ReferenceTraining(toy.wide, equal, 0, 24, 40, MatchRms(24, 40)), 1e-5, "in the group");
  ExpectNear(trained.at("h.1.square"),
             ReferenceTraining(toy.square, setup, 0, 16, 16, MatchRms(16, 16)), 1e-5, "outside");
}

TEST(MuonTest, WhatIsFrozenOrSkippedStays) {
  for (const int world_size : {1, 2}) {
    Case setup;
    setup.options = Options();
    setup.world_size = world_size;
    setup.steps = 2;
    setup.frozen = "h.0.wide";
    const Values frozen = Trained(setup);
    setup.frozen = "";
    setup.steps = 1;
    const Values one = Trained(setup);
    EXPECT_EQ(frozen.at("h.0.wide"), one.at("h.0.wide"));
    EXPECT_NE(frozen.at("h.0.tall"), one.at("h.0.tall"));
    setup.steps = 2;
    setup.skipped = 1;
    EXPECT_EQ(Trained(setup), one);
  }
}

// Momentum takes 4 bytes for an element of a matrix; AdamW's moments take 8 for any other.
TEST(MuonTest, StateIsShardedAndSmall) {
  Case setup;
  setup.options = Options();
  setup.world_size = 2;
  for (const char* strategy : {"no_shard", "full_shard"}) {
    setup.strategy = strategy;
    std::mutex mutex;
    int64_t bytes = 0;
    setup.after = [&](Communicator&, Sharding&, Muon& optimizer) {
      const std::lock_guard<std::mutex> lock(mutex);
      bytes += optimizer.MemoryBytes();
    };
    Trained(setup);
    const int64_t matrices = 24 * 40 + 41 * 24 + 17 + 19 + 16 * 16 + 3 * 5 * 12;
    const int64_t others = 50 * 8 + 40 + 7;
    const int64_t whole = 4 * matrices + 8 * others;
    EXPECT_EQ(bytes, std::string(strategy) == "no_shard" ? 2 * whole : whole);
  }
}

absl::Status CreateWith(const std::function<void(ShardingOptions&, OptimizerOptions&)>& change) {
  return RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto device, DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(const auto kernels,
                            KernelRegistry::Create(*device, device->compute_stream()));
    Toy toy;
    ShardingOptions sharding_options;
    OptimizerOptions options = Options();
    change(sharding_options, options);
    ZEROTH_ASSIGN_OR_RETURN(const auto sharding,
                            Sharding::Create(world, *device, sharding_options, toy.Units()));
    return Muon::Create(*sharding, *kernels, options).status();
  });
}

TEST(MuonTest, RefusesWhatItCannotDo) {
  const auto message = [](const std::function<void(ShardingOptions&, OptimizerOptions&)>& change) {
    return std::string(CreateWith(change).message());
  };
  EXPECT_EQ(message([](auto&, auto&) {}), "");
  EXPECT_THAT(message([](auto&, auto& o) { o.muon.momentum = 1; }),
              HasSubstr("momentum in [0, 1)"));
  EXPECT_THAT(message([](auto&, auto& o) { o.muon.ns_steps = 0; }), HasSubstr("at least one step"));
  EXPECT_THAT(message([](auto&, auto& o) { o.lr = 0; }), HasSubstr("expected one above 0"));
  EXPECT_THAT(message([](auto&, auto& o) { o.muon.patterns = {"nonesuch"}; }),
              HasSubstr("no trainable matrix"));
  EXPECT_THAT(message([](auto&, auto& o) { o.muon.per_head = true; }), HasSubstr("per_head"));
  EXPECT_THAT(message([](auto& s, auto&) { s.min_shard_numel = 100; }),
              AllOf(HasSubstr("h.1.row"), HasSubstr("min_shard_numel")));
  EXPECT_THAT(message([](auto& s, auto&) { s.offload.optimizer = true; }), HasSubstr("offloaded"));
  EXPECT_THAT(message([](auto& s, auto&) {
                s.mixed_precision.param_dtype = DType::kBFloat16;
                s.mixed_precision.master_dtype = DType::kBFloat16;
              }),
              AllOf(HasSubstr("h.0.wide"), HasSubstr("expected fp32")));
}

}  // namespace
}  // namespace zeroth::testing
