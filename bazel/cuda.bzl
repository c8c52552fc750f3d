# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Rules for code that needs CUDA: like the zeroth_cc_* rules, but skipped without a CUDA config.

Under `--config=cuda` the sources are compiled and linked with the toolkit. Under
`--config=cuda_emulation` the host's compiler takes the same sources, device code included, and
//core/device/cuda/emulation runs them, for tests on machines without a GPU.
Without either, these targets are skipped, and nothing looks for a toolkit.
"""

load("//bazel:cc.bzl", "cases_of", "zeroth_cc_binary", "zeroth_cc_library", "zeroth_cc_test", "zeroth_test_binary")
load("//bazel:layers.bzl", "check_walls")
load("//bazel/cuda:objects.bzl", "cuda_cubins", "cuda_objects")

_GPU = "//bazel/cuda:gpu"
_EMULATION = "//bazel/cuda:emulation"
_OTHERWISE = "//conditions:default"

# Marks targets to run on a GPU, for tools/gpu_check and `--test_tag_filters=gpu`. Programs, such as
# benchmarks, set the tag themselves.
_GPU_TAG = ["gpu"]

def cuda_only():
    """Returns the `target_compatible_with` of a target that needs a CUDA config."""
    return select({
        _EMULATION: [],
        _GPU: [],
        _OTHERWISE: ["@platforms//:incompatible"],
    })

def if_cuda(values):
    """Returns `values` under a CUDA config, else an empty list: for aggregators of back ends."""
    return select({
        _EMULATION: values,
        _GPU: values,
        _OTHERWISE: [],
    })

# Bazel analyses the dependencies even of a skipped target, and the toolkit's repository fails without a
# toolkit.
def _guarded(name, deps, testonly):
    check_walls(name, deps, testonly)
    return if_cuda(deps)

def cuda_cc_library(name, deps = [], testonly = False, **kwargs):
    """A zeroth_cc_library that needs a CUDA config."""
    zeroth_cc_library(
        name = name,
        target_compatible_with = cuda_only(),
        testonly = testonly,
        deps = _guarded(name, deps, testonly),
        **kwargs
    )

def cuda_cc_test(name, deps = [], tags = [], **kwargs):
    """A zeroth_cc_test that needs a CUDA config. Skips by itself where the machine has no GPU."""
    zeroth_cc_test(
        name = name,
        tags = tags + _GPU_TAG,
        target_compatible_with = cuda_only(),
        # A test without dependencies runs another test's cases.
        deps = _guarded(name, deps, testonly = True) if deps else [],
        **kwargs
    )

def cuda_cc_binary(name, deps = [], testonly = False, **kwargs):
    """A zeroth_cc_binary that needs a CUDA config."""
    zeroth_cc_binary(
        name = name,
        target_compatible_with = cuda_only(),
        testonly = testonly,
        deps = _guarded(name, deps, testonly),
        **kwargs
    )

def _only(config, values, otherwise):
    """Returns `values` under one CUDA config, else `otherwise`."""
    return select({
        config: values,
        _OTHERWISE: otherwise,
    })

def _test_only(config, name, deps, **kwargs):
    """A zeroth_cc_test that exists in one CUDA config only."""
    check_walls(name, deps, testonly = True)
    zeroth_cc_test(
        name = name,
        target_compatible_with = _only(config, [], ["@platforms//:incompatible"]),
        deps = _only(config, deps, []),
        **kwargs
    )

def emulation_cc_test(name, deps = [], **kwargs):
    """A zeroth_cc_test of the emulation itself."""
    _test_only(_EMULATION, name, deps, **kwargs)

def toolkit_cc_test(name, deps = [], tags = [], **kwargs):
    """A zeroth_cc_test of what the toolkit and its libraries do without a GPU."""

    # .ci/run finds these tests by the tag.
    _test_only(_GPU, name, deps, tags = tags + ["toolkit"], **kwargs)

def cuda_test_binary(name, tests = [], cuda_tests = [], emulation_tests = []):
    """A zeroth_test_binary with tests that need a CUDA config.

    Args:
      name: of the binary.
      tests: as in zeroth_test_binary: linked in every config.
      cuda_tests: cuda_cc_test targets.
      emulation_tests: emulation_cc_test targets.
    """
    check_walls(name, cuda_tests + emulation_tests, testonly = True)
    zeroth_test_binary(
        name = name,
        tests = tests,
        more_deps = if_cuda(cases_of(cuda_tests)) + _only(_EMULATION, cases_of(emulation_tests), []),
    )

def _host_sources(name, srcs):
    """Copies each .cu file to a name that the host's compiler accepts as C++."""
    sources = []
    for source in srcs:
        copy = "_%s/%s.cc" % (name, source)
        native.genrule(
            name = "_%s_%s" % (name, source.replace(".", "_").replace("/", "_")),
            srcs = [source],
            outs = [copy],
            cmd = "cp $< $@",
            target_compatible_with = cuda_only(),
            visibility = ["//visibility:private"],
        )
        sources.append(copy)
    return sources

def _cubins(library):
    package, _, name = library.rpartition(":")
    return "%s:_%s_cubins" % (package, name)

def cuda_code_test(name, libraries, deps = [], **kwargs):
    """A toolkit_cc_test that reads the machine code of libraries (cubins); needs no GPU.

    Args:
      name: as in toolkit_cc_test, as are all arguments that are not listed.
      libraries: labels of cuda_library targets. The test finds their code by the
        variable CUBINS of its environment: paths of runfiles, with spaces between.
      deps: as usual.
      **kwargs: passed to toolkit_cc_test.
    """
    cubins = [_cubins(library) for library in libraries]
    toolkit_cc_test(
        name = name,
        data = _only(_GPU, cubins, []),
        env = _only(_GPU, {"CUBINS": " ".join(["$(rootpaths %s)" % label for label in cubins])}, {}),
        deps = deps,
        **kwargs
    )

def cuda_library(name, srcs, hdrs = [], deps = [], nvcc_copts = [], testonly = False, **kwargs):
    """A library with device code.

    Args:
      name: as in zeroth_cc_library, as are all arguments that are not listed.
      srcs: .cu files.
      hdrs: headers, included as "zeroth/<package>/<header>"; host code may include them if they
        hold no device code.
      deps: as usual.
      nvcc_copts: further options of nvcc.
      testonly: as usual.
      **kwargs: passed to zeroth_cc_library.
    """
    headers = "_" + name + "_headers"
    zeroth_cc_library(
        name = headers,
        hdrs = hdrs,
        target_compatible_with = cuda_only(),
        testonly = testonly,
        visibility = ["//visibility:private"],
        deps = _guarded(headers, deps, testonly),
    )
    objects = "_" + name + "_objects"
    for rule, target in [(cuda_objects, objects), (cuda_cubins, _cubins(name)[1:])]:
        rule(
            name = target,
            srcs = srcs,
            copts = nvcc_copts,
            tags = ["manual"],
            target_compatible_with = cuda_only(),
            testonly = testonly,
            toolkit = select({
                _GPU: "@cuda//:toolkit",
                _OTHERWISE: None,
            }),
            visibility = kwargs.get("visibility"),
            deps = if_cuda([":" + headers]),
        )
    zeroth_cc_library(
        name = name,
        # Pragmas of nvcc, which the host's compiler does not know.
        copts = select({
            _EMULATION: ["-Wno-unknown-pragmas"],
            _OTHERWISE: [],
        }),
        srcs = select({
            _EMULATION: _host_sources(name, srcs),
            _GPU: [":" + objects],
            _OTHERWISE: [],
        }),
        target_compatible_with = cuda_only(),
        testonly = testonly,
        deps = if_cuda([":" + headers]),
        **kwargs
    )
