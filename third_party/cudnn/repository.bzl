# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the headers of cuDNN 9 and of cudnn-frontend. Fetched only by builds with --config=cuda."""

load("//third_party:system.bzl", "cached_folder", "first_with", "write_build_file")

_HEADERS = ["cudnn.h", "cudnn_version.h", "cudnn_graph.h", "cudnn_ops.h", "cudnn_adv.h", "cudnn_cnn.h", "cudnn_backend.h"]
_DEBIAN_INCLUDES = ["/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu"]

# The dynamic loader searches these by itself.
_DEBIAN_LIBRARIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]

def _named(ctx, variable, what, file):
    """What an environment variable names, or None; a folder that was named and lacks `file` fails."""
    folder = ctx.os.environ.get(variable, "")
    if folder and not ctx.path(folder + "/" + file).exists:
        fail("\n\n%s=%s does not hold %s (%s).\nCorrect it, or unset it.\n" % (variable, folder, what, file))
    return folder or None

def _find(ctx):
    """Returns (include folder of cuDNN, folder of cudnn-frontend, None), or what is missing as third."""
    cudnn_home = _named(ctx, "CUDNN_HOME", "the headers of cuDNN", "include/cudnn.h")
    frontend = _named(ctx, "CUDNN_FRONTEND_HOME", "the headers of cudnn-frontend", "include/cudnn_frontend.h")
    cuda_home = ctx.os.environ.get("CUDA_HOME", "")
    prefixes = [cudnn_home] if cudnn_home else [cuda_home or "/usr/local/cuda"]
    include = first_with(ctx, [prefix + "/include" for prefix in prefixes] + ([] if cudnn_home else _DEBIAN_INCLUDES), "cudnn_graph.h")
    if not include:
        return None, None, "the headers of cuDNN 9 were not found (CUDNN_HOME names its folder)"
    if not frontend:
        cached = cached_folder(ctx, "cudnn-frontend", ctx.attr._frontend)
        frontend = first_with(ctx, [cached] if cached else [], "include/cudnn_frontend.h")
    if not frontend:
        return None, None, ("the headers of cudnn-frontend were not found (./bazelw fetches them, " +
                            "CUDNN_FRONTEND_HOME names their folder)")
    return include, frontend, None

def _cudnn_repository_impl(ctx):
    include, frontend, missing = _find(ctx)
    linkopts = []
    if missing:
        # buildifier: disable=print
        print("This build leaves out attention by cuDNN: %s." % missing)
        ctx.file("include/empty", "")
    else:
        ctx.symlink(frontend + "/include", "include")
        if ctx.path(frontend + "/licenses").exists:
            ctx.symlink(frontend + "/licenses", "licenses")
        for header in _HEADERS:
            for name in [header, header.replace(".h", "_v9.h")]:
                if ctx.path(include + "/" + name).exists:
                    ctx.symlink(include + "/" + name, "cudnn_include/" + name)
        prefix = include[:-len("/include")] if include.endswith("/include") else "/usr"
        libraries = first_with(ctx, _DEBIAN_LIBRARIES + [prefix + "/lib64", prefix + "/lib"], "libcudnn.so.9")
        if libraries and libraries not in _DEBIAN_LIBRARIES:
            # Loaded at run time, and found again where it was at build time.
            linkopts = ["-Wl,-rpath," + libraries]
    write_build_file(ctx, ctx.attr._build_file, {
        "%{defines}": repr([] if missing else [
            "ZEROTH_HAS_CUDNN=1",
            "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING=1",
            "CUDNN_FRONTEND_SKIP_JSON_LIB=1",
        ]),
        "%{linkopts}": repr(linkopts),
    })

cudnn_repository = repository_rule(
    implementation = _cudnn_repository_impl,
    attrs = {
        "_build_file": attr.label(default = "//third_party/cudnn:cudnn.BUILD"),
        "_frontend": attr.label(default = "//third_party/cudnn:frontend.txt"),
    },
    configure = True,
    # bazelw sets CUDNN_FRONTEND_HOME once the headers are there, so that a running Bazel server looks again.
    environ = ["CUDA_HOME", "CUDNN_HOME", "CUDNN_FRONTEND_HOME", "XDG_CACHE_HOME", "HOME"],
    local = True,
)
