# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Fuzzing of file formats: a deterministic test and a libFuzzer program from one target."""

load("//bazel:cc.bzl", "zeroth_cc_binary", "zeroth_cc_library", "zeroth_cc_test")

# Links all of these tests, see its BUILD file.
_BINARY = "//tests/fuzz:fuzz_tests"

def zeroth_fuzz_test(name, srcs, deps, data = [], **kwargs):
    """A test that reads damaged files, and the same target under libFuzzer.

    Makes the test `name`, which damages the target's seeds and checks what reading them costs, and
    the program `name` with "er" for "_test", which needs --config=fuzz:
    ./bazelw run --config=fuzz //checkpoint/gguf:gguf_fuzzer -- -max_len=4096

    Args:
      name: ends in _fuzz_test.
      srcs: the source with the format's ZEROTH_FUZZ_TARGET, see zeroth/core/base/fuzz/fuzz_target.h.
      deps: what it uses.
      data: files that its seeds are read from.
      **kwargs: passed to the test.
    """
    if not name.endswith("_fuzz_test"):
        fail("zeroth_fuzz_test '%s': expected a name that ends in _fuzz_test" % name)
    target = name[:-len("_test")]
    deps = deps + [
        "//core/base/fuzz:fuzz_target",
        "@com_google_absl//absl/types:span",
    ]
    zeroth_cc_library(
        name = target,
        testonly = True,
        srcs = srcs,
        # Keeps the target's function in any link order.
        alwayslink = True,
        # The test already compiles the source.
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = deps,
    )
    zeroth_cc_test(
        name = name,
        srcs = srcs,
        binary = _BINARY,
        # Optimised, since a test reads tens of thousands of files.
        copts = ["-O2", "-DZEROTH_FUZZ_TEST"],
        data = data,
        deps = deps + [
            "//core/base/fuzz:fuzz_test",
            "@com_google_googletest//:gtest",
        ],
        **kwargs
    )
    zeroth_cc_binary(
        name = target + "er",
        testonly = True,
        data = data,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = [
            ":" + target,
            "//core/base/fuzz:libfuzzer_main",
        ],
    )
