# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# For CPUs:   docker build -t zeroth .
#             docker run --rm -v "$PWD:/work" zeroth zeroth-train --data=README.md
# For GPUs:   docker build -t zeroth-cuda --build-arg CONFIG=cuda --build-arg BUILD_IMAGE=IMAGE --build-arg RUN_IMAGE=IMAGE .
#             docker run --rm --gpus=all --ipc=host -v "$PWD:/work" zeroth-cuda \
#               mpirun --allow-run-as-root -n 8 zeroth-train --device=cuda --comm=nccl --data=README.md
#             where the first image is Debian 12 with the CUDA toolkit, NCCL and g++, and the second Debian 12
#             with their libraries; docs/build.md says which versions.
# These commands have been run in a plain Debian 12 system, not by a Docker engine; for GPUs they have not run.
ARG BUILD_IMAGE=debian:12
ARG RUN_IMAGE=debian:12-slim

FROM ${BUILD_IMAGE} AS build
ARG CONFIG
COPY . /zeroth
WORKDIR /zeroth
RUN ./bazelw run ${CONFIG:+--config=$CONFIG} //tools/install -- --prefix=/opt/zeroth

FROM ${RUN_IMAGE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends libdnnl2 libgomp1 libhwy1 libpcre2-8-0 libsentencepiece0 libstdc++6 \
    libutf8proc2 libxxhash0 openmpi-bin \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/zeroth /usr/local
WORKDIR /work
CMD ["zeroth-train", "--help"]
