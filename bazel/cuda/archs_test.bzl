# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A test of archs.bzl, made when the build is loaded."""

load("//bazel/cuda:archs.bzl", "nvcc_arch_flags", "parse_archs")

_KNOWN = [75, 80, 90, 100]

# (value of the setting, what the toolkit knows, the architectures or None, a part of the refusal)
_CASES = [
    ("default", _KNOWN, ["sm_80", "sm_90a", "sm_100"], None),
    ("default", [75, 80, 90], ["sm_80", "sm_90a"], None),
    ("default", [60], None, "sm_80"),
    ("sm_90a", _KNOWN, ["sm_90a"], None),
    ("sm_90, sm_75,sm_90", _KNOWN, ["sm_90", "sm_75"], None),
    ("default", [80, 90, 100, 103, 121], ["sm_80", "sm_90a", "sm_100"], None),
    ("sm_103,sm_121", [80, 90, 100, 103, 121], ["sm_103", "sm_121"], None),
    ("sm_121", _KNOWN, None, "does not compile for sm_121; it knows sm_75, sm_80"),
    ("", _KNOWN, None, "'' is not an architecture"),
    ("90", _KNOWN, None, "'90' is not an architecture"),
    ("sm_", _KNOWN, None, "'sm_' is not an architecture"),
    ("sm_90x", _KNOWN, None, "'sm_90x' is not an architecture"),
    ("sm_110", _KNOWN, None, "does not compile for sm_110; it knows sm_75, sm_80"),
]

def _failures():
    failures = []
    for value, known, expected, refusal in _CASES:
        archs, problem = parse_archs(value, known)
        if archs != expected or (refusal and refusal not in problem):
            failures.append("parse_archs('%s', %s) gave %s, '%s'" % (value, known, archs, problem))
    flags = nvcc_arch_flags(["sm_80", "sm_90a"])
    if flags != [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_90,code=compute_90",
    ]:
        failures.append("nvcc_arch_flags gave %s" % flags)
    return failures

def _archs_test_impl(ctx):
    failures = _failures()
    lines = ["#!/bin/sh", "cat <<'END'"] + failures + ["%d failures" % len(failures), "END"]
    lines.append("exit %d" % (1 if failures else 0))
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "\n".join(lines) + "\n", is_executable = True)
    return [DefaultInfo(executable = script)]

archs_test = rule(
    implementation = _archs_test_impl,
    test = True,
)
