# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Dependencies between folders, as Bazel analyses them, for the test of docs/architecture.md.

This is an aspect rather than a genquery, because a query follows every branch of a select() and would need
a CUDA toolkit.
"""

load("//bazel:layers.bzl", "layer_of")

_Edges = provider(fields = {"lines": "depset of 'user used //user:target //used:target'"})

def _edges_impl(target, ctx):
    lines = []
    below = []
    for dep in getattr(ctx.rule.attr, "deps", None) or []:
        if _Edges in dep:
            below.append(dep[_Edges].lines)
        if target.label.workspace_name or dep.label.workspace_name:
            continue
        user = layer_of(target.label.package)
        used = layer_of(dep.label.package)
        if user and used and user != used:
            lines.append("%s %s //%s:%s //%s:%s" % (
                user,
                used,
                target.label.package,
                target.label.name,
                dep.label.package,
                dep.label.name,
            ))
    return [_Edges(lines = depset(lines, transitive = below))]

_edges = aspect(implementation = _edges_impl, attr_aspects = ["deps"])

def _layer_graph_impl(ctx):
    file = ctx.actions.declare_file(ctx.label.name + ".txt")
    lines = depset(transitive = [dep[_Edges].lines for dep in ctx.attr.deps])
    ctx.actions.write(file, "".join([line + "\n" for line in sorted(lines.to_list())]))
    return [DefaultInfo(files = depset([file]), runfiles = ctx.runfiles([file]))]

# NAME.txt has a line for each dependency between two layers among `deps` and all that they need:
# both layers, then both targets. Nothing is compiled for it.
layer_graph = rule(
    implementation = _layer_graph_impl,
    attrs = {"deps": attr.label_list(aspects = [_edges])},
)
