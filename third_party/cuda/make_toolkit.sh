#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# make_toolkit.sh FOLDER: makes a CUDA toolkit with NCCL and cuDNN in FOLDER of NVIDIA's wheels on PyPI (toolkit.txt), without
# root and without NVIDIA's repositories. Builds use it by CUDA_HOME=FOLDER.
set -euo pipefail
here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"

if [[ $# != 1 || -e "$1" ]]; then
  echo "usage: make_toolkit.sh FOLDER, which must not exist yet" >&2
  exit 2
fi
mkdir -p "$1"
folder="$(cd -- "$1" && pwd)"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input --disable-pip-version-check --no-deps --only-binary=:all: \
  --requirement="$here/toolkit.txt"
nvidia="$(echo "$folder"/venv/lib/python3*/site-packages/nvidia)"

# One folder of each kind, as an installed toolkit has, and the names of libraries by which programs are linked.
for kind in bin nvvm; do ln -s "$nvidia/cu13/$kind" "$folder/$kind"; done
for kind in include lib; do
  mkdir "$folder/$kind"
  for package in cu13 nccl cudnn; do ln -s "$nvidia/$package/$kind"/* "$folder/$kind/"; done
done
ln -s lib "$folder/lib64"
for library in "$folder"/lib/*.so.*; do
  plain="${library%%.so.*}.so"
  [[ -e "$plain" ]] || ln -s "$(basename -- "$library")" "$plain"
done
"$folder/bin/nvcc" --version | tail -n 1
