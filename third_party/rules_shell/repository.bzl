# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A rules_shell of a few lines: the shell rules that Bazel 4 to 8 carry inside."""

def _rules_shell_repository_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", "")
    ctx.file("shell/BUILD", "")
    for rule in ["sh_binary", "sh_library", "sh_test"]:
        ctx.file(
            "shell/%s.bzl" % rule,
            "# Written by Zeroth's third_party/rules_shell/repository.bzl.\n%s = native.%s\n" % (rule, rule),
        )

rules_shell_repository = repository_rule(implementation = _rules_shell_repository_impl)
