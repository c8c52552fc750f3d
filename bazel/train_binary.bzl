# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Builds a custom trainer program."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def zeroth_train_binary(name, deps = [], **kwargs):
    """The trainer with the strategies, model families, optimizers and schedules of `deps` linked in.

    Their targets register them at namespace scope (StrategyRegistration, ModelRegistration,
    OptimizerRegistration, LrScheduleRegistration) and have `alwayslink = True`. The flags are the trainer's:
    --strategy, --optimizer and --lr_schedule accept the registered names, --model a registered preset, or a
    config.json of the registered model_type.

    Args:
      name: of the program.
      deps: what to link in.
      **kwargs: of cc_binary.
    """
    cc_binary(
        name = name,
        stamp = 1,
        deps = deps + [Label("//train:train_main")],
        **kwargs
    )
