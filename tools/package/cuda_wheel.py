#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes the wheel zeroth_cuda13: programs for NVIDIA GPUs, which bin/zeroth of the wheel zeroth runs instead of its own.

    cuda_wheel.py OUTPUT VERSION LICENSE[,LICENSE...] NAME=PROGRAM...

The wheel has no libraries. Its programs find those of every machine in the wheel zeroth of the same version, and NVIDIA's in
the wheels that NVIDIA keeps on PyPI, all installed in one site-packages. The wheel requires the minor releases of NVIDIA's
libraries that the build used, as `train --version` prints them. It does not require the wheel zeroth: pip would look for it
on PyPI, where another project has that name. The same programs give the same bytes.
"""

import os
import re
import sys
import tempfile

import package

NAME = "zeroth_cuda13"
CUDA = "13"  # as in the names of NVIDIA's packages and of bin/zeroth
# The PyPI package of each library, by its name in `train --version`.
REQUIRED = {"cuBLASLt": "nvidia-cublas", "CUDA runtime": "nvidia-cuda-runtime", "NVRTC": "nvidia-cuda-nvrtc",
            "NCCL": "nvidia-nccl-cu13", "cuDNN": "nvidia-cudnn-cu13"}
# The folders of libraries in site-packages: of the wheel zeroth, and of NVIDIA's packages.
FOLDERS = ("zeroth/lib/zeroth", "nvidia/cu13/lib", "nvidia/nccl/lib", "nvidia/cudnn/lib")
RUNTIME = """
==== CUDA runtime

The programs contain NVIDIA's CUDA runtime (libcudart_static), under the license agreement of the CUDA Toolkit:
https://docs.nvidia.com/cuda/eula/index.html
"""


def requirements_of(train):
    """Returns what the wheel requires. Other minor releases of the libraries were not tested."""
    printed = package.run(train, "--version")
    found = {name: release for name, release in re.findall(r"^(?:CUDA)? +(\w[\w ]*) (\d+\.\d+)\S* in /", printed, re.MULTILINE)}
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        sys.exit("cuda_wheel: %s --version names no %s; build with --config=cuda where these libraries are installed. It "
                 "prints:\n%s" % (train, ", ".join(missing), printed))
    if found["cuBLASLt"].split(".")[0] != CUDA:
        sys.exit("cuda_wheel: the programs are built with cuBLASLt %s, and this wheel is for CUDA %s: use its toolkit" %
                 (found["cuBLASLt"], CUDA))
    return ["%s==%s.*" % (REQUIRED[name], found[name]) for name in REQUIRED]


def stage(tree, programs):
    os.makedirs(tree)
    for name, program in programs.items():
        target = os.path.join(tree, name)
        package.run("strip", "-o", target, program)
        # DT_RPATH goes before LD_LIBRARY_PATH, which may name another CUDA, and also counts for dlopen, by which the
        # programs load cuDNN.
        package.run("patchelf", "--force-rpath", "--set-rpath", ":".join("$ORIGIN/../" + folder for folder in FOLDERS), target)
        os.chmod(target, 0o755)


def main():
    output, version, licenses = sys.argv[1:4]
    programs = dict(word.split("=", 1) for word in sys.argv[4:])
    os.environ["LC_ALL"] = "C"  # the words of readelf
    os.makedirs(output, exist_ok=True)
    requirements = requirements_of(os.path.abspath(programs["train"]))
    text = "\n".join(package.read_text(path) for path in licenses.split(",")) + package.notices([]) + RUNTIME
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "tree")
        stage(tree, programs)
        policy = package.policy_of(package.newest_symbol(tree, "GLIBC"), package.newest_symbol(tree, "GLIBCXX"))
        entries = [("%s/%s" % (NAME, name), package.read(path), 0o755) for name, path in package.files_of(tree)]
    entries.append((NAME + "/_version.py", package.version_module(version).encode(), 0o644))
    package.write_wheel(output, NAME, version, entries, requirements, "", text, policy)


if __name__ == "__main__":
    main()
