# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A test of the walls' table: which dependency is allowed between which folders."""

load("//bazel:layers.bzl", "wall_violation")

# (package, label as written there, whether the target is for tests, a part of the refusal or None)
_CASES = [
    ("core/base", ":check", False, None),
    ("core/base", "@com_google_absl//absl/status", False, None),
    ("core/base", "//core/device", False, "lies above"),
    ("core/device", "//core/base:check", False, None),
    ("core/device", "//core/device/cpu", False, None),
    ("core/comm", "//strategies", False, "'strategies' lies above 'core/comm'"),
    ("core/comm", "@zeroth//strategies:unit", False, "lies above"),
    ("core/comm", "//strategies:unit", True, "lies above"),
    ("core", "//core/comm/local", False, None),
    ("kernels/cpu", "//core/device/cpu:cpu_stream", False, None),
    ("kernels", "//core/comm:communicator", False, "kernels never mention ranks"),
    ("kernels", "//core", False, "kernels never mention ranks"),
    ("strategies", "//core/comm:communicator", False, None),
    ("strategies", "//core/comm/local", False, "strategies never name a transport"),
    ("strategies", "//core/device/cpu:cpu_stream", False, "strategies never name a device"),
    ("strategies", "//kernels/cpu", False, "strategies never name a device"),
    ("strategies/full_shard", "//core/comm/local", False, "strategies never name a transport"),
    ("strategies/full_shard", "//core/comm/local", True, None),
    ("strategies/full_shard", "//nn:module", True, "'nn' lies above 'strategies'"),
    ("strategies", "//strategies/full_shard", False, None),
    ("optim", "//strategies:unit", False, None),
    ("optim", "//strategies:full_shard", False, "no strategy by name"),
    ("optim", "//strategies/full_shard:full_shard", False, "no strategy by name"),
    ("nn", "//strategies:all", False, "no strategy by name"),
    ("nn", "//core/comm:mesh", False, "neither ranks nor transports"),
    ("nn", "//optim", False, None),
    ("checkpoint", "//nn:gpt2", False, "no model classes"),
    ("data", "//nn", False, "data knows no models"),
    ("data", "//checkpoint:safetensors", False, None),
    ("plan", "//api:trainer", False, None),
    ("plan", "//train:model_source", False, "'train' lies above 'plan'"),
    ("options", "//plan", False, "'plan' lies above 'options'"),
    ("train", "//strategies:all", False, None),
    ("examples/wrap", "//train", False, None),
    ("nnx", "//core/base:check", False, "in no layer"),
]

def _failures():
    failures = []
    for package, label, testonly, expected in _CASES:
        found = wall_violation(package, label, testonly)
        wrong = found if expected == None else (not found or expected not in found)
        if wrong:
            failures.append("//%s -> %s (testonly %s): expected %r, found %r" % (
                package,
                label,
                testonly,
                expected,
                found,
            ))
    return failures

def _layers_test_impl(ctx):
    failures = _failures()
    lines = ["#!/bin/sh"]
    lines += ["cat <<'END'"] + failures + ["%d cases, %d failures" % (len(_CASES), len(failures)), "END"]
    lines.append("exit %d" % (1 if failures else 0))
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "\n".join(lines) + "\n", is_executable = True)
    return [DefaultInfo(executable = script)]

layers_test = rule(
    implementation = _layers_test_impl,
    test = True,
)
