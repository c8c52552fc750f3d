# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The C++ rules of this project: include paths, language standard, warnings and walls in one place.

Public headers are included as `zeroth/<folder>/<file>.h`, here and in projects that import this one.
Every rule takes the arguments of the cc_* rule it wraps, and `openmp = True` for sources that use
OpenMP. Everything links statically: a trainer is one binary that can be copied to another machine,
as long as that has the few dependencies that are shared libraries.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//bazel:layers.bzl", "check_walls")
load("//bazel:linked_test.bzl", "linked_test")
load("//bazel:precompiled_header.bzl", "precompiled_header")

_BASE_COPTS = [
    "-std=c++20",
    # Contraction would round a*b+c once in a vector body and twice in its scalar tail, so results
    # would depend on where a shard begins.
    "-ffp-contract=off",
    # Our functions are not interposed, so calls within a file may be inlined in -fPIC code.
    "-fno-semantic-interposition",
] + select({
    # On aarch64: NEON, and SVE of any vector length. SVE2 would only shorten the way to int8.
    str(Label("@platforms//cpu:aarch64")): ["-DHWY_DISABLED_TARGETS=(HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)"],
    # A kernel is compiled once for each of Highway's targets: AVX-512, AVX2 and the portable one.
    # Processors without AVX2 use the portable one; code for SSE would take a third of the time of compiling kernels.
    "//conditions:default": ["-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)"],
}) + [
    # Parts of nlohmann/json.hpp that include <filesystem> and <ranges>, and that nothing here uses.
    "-DJSON_HAS_FILESYSTEM=0",
    "-DJSON_HAS_RANGES=0",
]

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wcast-qual",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wundef",
    "-Wvla",
    "-Werror",
]

# An importing project's compiler may have other warnings, which must not break its build.
_IMPORTED_WARNINGS = ["-w"]

_OPENMP = ["-fopenmp"]

# The code under test is in libraries; without optimization a test's own source compiles in half the time.
_TEST_COPTS = select({
    "//bazel:opt": ["-O0"],
    "//conditions:default": [],
})

def zeroth_preludes():
    """The headers that optimised sources include first, precompiled with the options of the sources."""
    precompiled_header(
        name = "prelude",
        copts = _copts([], openmp = False),
        header = "prelude.h",
        visibility = ["//visibility:public"],
        deps = [
            "@com_google_absl//absl/functional:function_ref",
            "@com_google_absl//absl/status",
            "@com_google_absl//absl/status:statusor",
            "@com_google_absl//absl/strings",
            "@com_google_absl//absl/time",
            "@com_google_absl//absl/types:span",
        ],
    )
    precompiled_header(
        name = "test_prelude",
        testonly = True,
        copts = _copts(["-O0"], openmp = False),
        header = "test_prelude.h",
        visibility = ["//visibility:public"],
        deps = [
            ":prelude",
            "@com_google_googletest//:gtest",
        ],
    )

def _prelude(name, copts, openmp):
    # Without optimization nothing is precompiled, so that a missing include is an error there. GCC would
    # read the header again for a source with other options: those of OpenMP, or of an importing project's .bazelrc.
    # GCC 12 cannot use SVE's types after a precompiled header.
    if copts or openmp or not _in_main_repository():
        return struct(copts = [], deps = [])
    return struct(
        copts = select({"//bazel:precompiles": ["-include", "zeroth/%s.h" % name], "//conditions:default": []}),
        deps = select({"//bazel:precompiles": [Label("//bazel:" + name)], "//conditions:default": []}),
    )

def _in_main_repository():
    # Bazel 4 has only the second function, and newer versions will remove it.
    repository = native.repo_name() if hasattr(native, "repo_name") else native.repository_name().lstrip("@")
    return repository == ""

def _copts(copts, openmp):
    warnings = _WARNINGS if _in_main_repository() else _IMPORTED_WARNINGS
    return _BASE_COPTS + warnings + (_OPENMP if openmp else []) + copts

def _linkopts(linkopts, openmp):
    return (_OPENMP if openmp else []) + linkopts

def zeroth_cc_library(name, deps = [], copts = [], linkopts = [], openmp = False, testonly = False, **kwargs):
    """A cc_library whose headers are included as "zeroth/<package>/<header>"."""
    check_walls(name, deps, testonly)
    prelude = _prelude("prelude", copts, openmp)
    cc_library(
        name = name,
        copts = prelude.copts + _copts(copts, openmp),
        include_prefix = "zeroth/" + native.package_name(),
        linkopts = _linkopts(linkopts, openmp),
        linkstatic = True,
        strip_include_prefix = "/" + native.package_name(),
        testonly = testonly,
        deps = deps + prelude.deps,
        **kwargs
    )

def _linked_only_impl(ctx):
    merged = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    runfiles = ctx.runfiles()
    for dep in ctx.attr.deps:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [CcInfo(linking_context = merged.linking_context), DefaultInfo(runfiles = runfiles)]

_linked_only = rule(
    implementation = _linked_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def zeroth_linked_only(name, deps, **kwargs):
    """Links libraries that register themselves into whatever depends on this, without their headers.

    A source that includes a header depends on the header's library. So a source compiles in the same way
    whatever is linked with it, and builds with and without CUDA share all objects without CUDA code.
    """
    check_walls(name, deps)
    _linked_only(name = name, deps = deps, **kwargs)

def zeroth_cc_binary(name, deps = [], copts = [], linkopts = [], openmp = False, testonly = False, **kwargs):
    """A cc_binary with the project's compiler options."""
    check_walls(name, deps, testonly)
    prelude = _prelude("prelude", copts, openmp)
    cc_binary(
        name = name,
        copts = prelude.copts + _copts(copts, openmp),
        linkopts = _linkopts(linkopts, openmp),
        testonly = testonly,
        deps = deps + prelude.deps,
        **kwargs
    )

def zeroth_cc_test(name, deps = [], copts = [], linkopts = [], openmp = False, **kwargs):
    """A cc_test with the project's compiler options; `deps` must name the test framework.

    With `binary`, a zeroth_test_binary, nothing is linked: the test runs the cases of its `srcs` in that binary.
    """
    check_walls(name, deps, testonly = True)
    prelude = _prelude("test_prelude", copts, openmp)
    copts = prelude.copts + _copts([], openmp) + _TEST_COPTS + copts
    linkopts = _linkopts(linkopts, openmp)
    if "binary" in kwargs:
        _test_in_binary(name, deps, prelude.deps, copts, linkopts, **kwargs)
        return
    cc_test(
        name = name,
        copts = copts,
        linkopts = linkopts,
        linkstatic = True,
        deps = deps + prelude.deps,
        **kwargs
    )

def _cases(test):
    package, colon, name = test.rpartition(":")
    return "%s:_%s_cases" % (package, name)

def _test_in_binary(name, deps, prelude_deps, copts, linkopts, binary, srcs, env = {}, target_compatible_with = [], **kwargs):
    # A test without dependencies runs the cases of another test.
    if deps:
        cc_library(
            name = _cases(name)[1:],
            testonly = True,
            srcs = srcs,
            copts = copts,
            linkopts = linkopts,
            linkstatic = True,
            # A test that needs CUDA is built with the binary that links it, and not by itself.
            tags = ["manual"] if target_compatible_with else [],
            target_compatible_with = target_compatible_with,
            visibility = [binary.partition(":")[0] + ":__pkg__"] if binary.startswith("//") else ["//visibility:private"],
            deps = deps + prelude_deps,
            alwayslink = True,
        )
    sources = [native.package_name() + "/" + source for source in srcs]
    linked_test(
        name = name,
        binary = binary,
        env = dict(env, ZEROTH_TEST_SOURCES = " ".join(sources)),
        target_compatible_with = target_compatible_with,
        **kwargs
    )

def cases_of(tests):
    """Returns the libraries that hold the cases of tests which are linked into a shared binary."""
    return [_cases(test) for test in tests]

def zeroth_test_binary(name, tests, users = [], more_deps = []):
    """Links tests once that run as several targets, each with its own size, tags, data and environment.

    A link takes longer than what most tests do. A test that names this one as its `binary` runs the cases of
    its own sources here (//core/base/testing:test_main).

    Args:
      name: of the binary.
      tests: the zeroth_cc_test targets that have this `binary` and `deps`: names in this folder, labels elsewhere.
      users: packages outside this folder that have some of the tests, as `visibility` names them.
      more_deps: of cuda_test_binary.
    """
    check_walls(name, tests, testonly = True)
    cc_binary(
        name = name,
        testonly = True,
        visibility = users + ["//%s:__subpackages__" % native.package_name()],
        # First: the linker takes the main function that it sees first.
        deps = [Label("//core/base/testing:test_main")] + cases_of(tests) + more_deps,
    )

def zeroth_cc_benchmark(name, deps = [], **kwargs):
    """A Google Benchmark binary; link `@com_google_benchmark//:benchmark_main` or bring a main."""
    zeroth_cc_binary(
        name = name,
        testonly = True,
        deps = deps,
        **kwargs
    )

def zeroth_public_alias(name, actual):
    """Gives importing projects a short label for a target whose own visibility keeps the walls."""
    check_walls(name, [actual])
    native.alias(
        name = name,
        actual = actual,
        visibility = ["//visibility:public"],
    )
