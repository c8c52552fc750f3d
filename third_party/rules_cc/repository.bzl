# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A rules_cc of a few lines: the C++ rules that Bazel 4 to 7 carry inside."""

_HEADER = "# Written by Zeroth's third_party/rules_cc/repository.bzl.\n"

_DEFS = _HEADER + """\
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
"""

# A file that assigns a name cannot read the global of that name, so two files hand each of these on.
_GLOBALS = _HEADER + """\
native_cc_common = cc_common
native_cc_info = CcInfo
"""

def _export(name, global_name):
    return _HEADER + "load(\":globals.bzl\", \"%s\")\n%s = %s\n" % (global_name, name, global_name)

def _rules_cc_repository_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", "")
    ctx.file("cc/BUILD", "")
    ctx.file("cc/defs.bzl", _DEFS)
    ctx.file("cc/common/BUILD", "")
    ctx.file("cc/common/globals.bzl", _GLOBALS)
    ctx.file("cc/common/cc_common.bzl", _export("cc_common", "native_cc_common"))
    ctx.file("cc/common/cc_info.bzl", _export("CcInfo", "native_cc_info"))

rules_cc_repository = repository_rule(implementation = _rules_cc_repository_impl)
