# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the CUDA toolkit, cuBLASLt and NCCL. Fetched only by builds with a CUDA config."""

load("//third_party:system.bzl", "first_with", "write_build_file")

# Debian's folders, where its own packages of the toolkit lie.
_MULTIARCH_LIBRARIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]
_LIBRARY_FOLDERS = ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib", "lib/x86_64-linux-gnu"]

def _fail_missing(what, looked_in, variable, variables):
    fail(("\n\n--config=cuda needs %s.\nLooked in: %s.\n" +
          "Install it, or say where it is: %s=/path/to/it ./bazelw build --config=cuda ...\n%s") % (
        what,
        ", ".join(looked_in),
        variable,
        "".join(["(%s is '%s'.)\n" % (name, value) for name, value in variables if value]),
    ))

def _under(prefixes, folders):
    return [prefix + "/" + folder for prefix in prefixes for folder in folders]

def _shared(folder, library):
    """Linker flags for a shared library, found again at run time where it was at build time."""
    flags = ["-l" + library]
    if folder in _MULTIARCH_LIBRARIES:
        return flags
    return ["-L" + folder, "-Wl,-rpath," + folder] + flags

def _absolute(label):
    """A label as another repository must write it; Bazel 4 leaves out the main repository's name."""
    text = str(label)
    return "@zeroth" + text if text.startswith("//") else text

def _known_archs(ctx, nvcc):
    result = ctx.execute([nvcc, "--list-gpu-arch"])
    if result.return_code != 0:
        fail("\n\n--config=cuda: %s --list-gpu-arch failed: %s" % (nvcc, result.stderr.strip()))
    numbers = [line.strip()[len("compute_"):] for line in result.stdout.splitlines() if line.strip().startswith("compute_")]
    return [number for number in numbers if number.isdigit()]

def _cuda_repository_impl(ctx):
    cuda_home = ctx.os.environ.get("CUDA_HOME", "")
    nccl_home = ctx.os.environ.get("NCCL_HOME", "")
    variables = [("CUDA_HOME", cuda_home), ("NCCL_HOME", nccl_home)]

    # A toolkit that was named and is not there must not be replaced by another one silently.
    prefixes = [cuda_home] if cuda_home else ["/usr/local/cuda", "/usr"]
    prefix = first_with(ctx, prefixes, "bin/nvcc")
    if not prefix:
        _fail_missing("the CUDA toolkit's compiler (bin/nvcc)", prefixes, "CUDA_HOME", variables)
    nvcc = prefix + "/bin/nvcc"

    include_folders = [prefix + "/include", prefix + "/targets/x86_64-linux/include"]
    include = first_with(ctx, include_folders, "cuda_runtime.h")
    if not include:
        _fail_missing("the CUDA toolkit's headers (cuda_runtime.h)", include_folders, "CUDA_HOME", variables)
    library_folders = _under([prefix], _LIBRARY_FOLDERS) + (_MULTIARCH_LIBRARIES if not cuda_home else [])
    runtime = first_with(ctx, library_folders, "libcudart_static.a")
    if not runtime:
        _fail_missing("the CUDA runtime (libcudart_static.a)", library_folders, "CUDA_HOME", variables)
    if not ctx.path(include + "/cublasLt.h").exists:
        _fail_missing("the headers of cuBLASLt (cublasLt.h)", [include], "CUDA_HOME", variables)
    cublaslt = first_with(ctx, library_folders, "libcublasLt.so")
    if not cublaslt:
        _fail_missing("cuBLASLt (libcublasLt.so)", library_folders, "CUDA_HOME", variables)

    nccl_includes = [nccl_home + "/include"] if nccl_home else [include, "/usr/include", "/usr/local/include"]
    nccl_include = first_with(ctx, nccl_includes, "nccl.h")
    if not nccl_include:
        _fail_missing("the header of NCCL (nccl.h)", nccl_includes, "NCCL_HOME", variables)
    nccl_folders = _under([nccl_home], _LIBRARY_FOLDERS) if nccl_home else library_folders + _MULTIARCH_LIBRARIES + ["/usr/local/lib"]
    nccl = first_with(ctx, nccl_folders, "libnccl.so")
    if not nccl:
        _fail_missing("NCCL (libnccl.so)", nccl_folders, "NCCL_HOME", variables)

    ctx.symlink(include, "include")
    ctx.symlink(nccl_include + "/nccl.h", "nccl_include/nccl.h")

    # nvcc finds its own parts beside the path it was called by, so a link to it would not do.
    ctx.file("nvcc.sh", "#!/bin/sh\nexec '%s' \"$@\"\n" % nvcc, executable = True)
    write_build_file(ctx, ctx.attr._build_file, {
        "%{cublaslt_linkopts}": repr(_shared(cublaslt, "cublasLt")),
        "%{cudart_linkopts}": repr([runtime + "/libcudart_static.a", "-ldl", "-lpthread", "-lrt"]),
        "%{known_archs}": repr(_known_archs(ctx, nvcc)),
        "%{nccl_linkopts}": repr(_shared(nccl, "nccl")),
        "%{toolkit_bzl}": _absolute(Label("//bazel/cuda:toolkit.bzl")),
    })

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/cuda:cuda.BUILD")},
    configure = True,
    environ = ["CUDA_HOME", "NCCL_HOME"],
    local = True,
)
