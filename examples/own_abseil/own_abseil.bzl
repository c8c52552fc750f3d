# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Stands for an Abseil that a project already has: one library under upstream's labels.

It is made of the system's shared libraries, so that this example needs no network. The macro OWN_ABSEIL identifies it.
"""

_LABELS = {
    "container": ["flat_hash_map", "inlined_vector"],
    "functional": ["function_ref"],
    "hash": ["hash"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "time": ["time"],
    "types": ["span"],
}

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "all_of_abseil",
    hdrs = glob(["include/absl/**"]),
    defines = ["OWN_ABSEIL=1"],
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//:__subpackages__"],
)
"""

def _pkg_config(ctx, arguments):
    result = ctx.execute(["pkg-config"] + arguments)
    if result.return_code != 0:
        fail("pkg-config %s: %s" % (" ".join(arguments), result.stderr))
    return result.stdout.strip()

def _own_abseil_impl(ctx):
    ctx.symlink(_pkg_config(ctx, ["--variable=includedir", "absl_base"]) + "/absl", "include/absl")
    libraries = _pkg_config(ctx, ["--libs", "absl_cord", "absl_flat_hash_map", "absl_hash", "absl_statusor", "absl_time"])
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", _BUILD.format(linkopts = libraries.split(" ")))
    for folder, names in _LABELS.items():
        aliases = [
            "alias(name = \"%s\", actual = \"//:all_of_abseil\", visibility = [\"//visibility:public\"])\n" % name
            for name in names
        ]
        ctx.file("absl/%s/BUILD" % folder, "".join(aliases))

own_abseil = repository_rule(implementation = _own_abseil_impl, local = True)
