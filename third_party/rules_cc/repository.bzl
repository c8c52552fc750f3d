# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A rules_cc of a few lines: the C++ rules that Bazel 4 to 7 carry inside."""

_DEFS = """# Written by Zeroth's third_party/rules_cc/repository.bzl.
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
"""

def _rules_cc_repository_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", "")
    ctx.file("cc/BUILD", "")
    ctx.file("cc/defs.bzl", _DEFS)

rules_cc_repository = repository_rule(implementation = _rules_cc_repository_impl)
