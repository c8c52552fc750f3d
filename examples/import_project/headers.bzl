# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a source file for each header of the given libraries, which includes that header and nothing else."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _zeroth_headers(dep):
    """Returns the paths of Zeroth's headers in this dependency, without the leading `zeroth/`."""
    return [
        header.path.split("/_virtual_includes/")[1].split("/zeroth/", 1)[1]
        for header in dep[CcInfo].compilation_context.headers.to_list()
        if "/_virtual_includes/" in header.path and "/zeroth/" in header.path.split("/_virtual_includes/")[1]
    ]

def _headers_alone_impl(ctx):
    headers = {header: None for dep in ctx.attr.deps for header in _zeroth_headers(dep)}
    if not headers:
        fail("no headers of Zeroth come with %s" % ctx.attr.deps)
    sources = []
    for header in headers:
        source = ctx.actions.declare_file("%s/%s.cc" % (ctx.label.name, header))
        ctx.actions.write(source, "#include \"zeroth/%s\"\n" % header)
        sources.append(source)
    return [DefaultInfo(files = depset(sources))]

headers_alone = rule(
    implementation = _headers_alone_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
