# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds a shared library of the system, of one header or a few, through pkg-config."""

load("//third_party:system.bzl", "link_flags", "pkg_config", "write_build_file")

def _pkg_config_repository_impl(ctx):
    module = ctx.attr.module
    include_dir = pkg_config(ctx, module, ["--variable=includedir"], ctx.attr.package)
    library_dir = pkg_config(ctx, module, ["--variable=libdir"], ctx.attr.package)
    headers = ["include/" + header for header in ctx.attr.headers]
    linkopts = link_flags(library_dir, ctx.attr.library)
    for header in ctx.attr.headers:
        ctx.symlink(include_dir + "/" + header, "include/" + header)

        # SentencePiece 0.2.2 returns Abseil's status: that of the system, with which it was built. Programs that link the
        # same Abseil statically do not need it.
        if "#include <absl/status/status.h>" in ctx.read(include_dir + "/" + header):
            linkopts += ["-Wl,--push-state,--as-needed"] + link_flags(library_dir, "absl_status") + ["-Wl,--pop-state"]
    write_build_file(ctx, ctx.attr._build_file, {
        "%{headers}": repr(headers),
        "%{linkopts}": repr(linkopts),
        "%{name}": ctx.attr.target,
    })

pkg_config_repository = repository_rule(
    implementation = _pkg_config_repository_impl,
    attrs = {
        "headers": attr.string_list(mandatory = True, doc = "under the module's includedir"),
        "library": attr.string(mandatory = True, doc = "what the linker calls it"),
        "module": attr.string(mandatory = True, doc = "what pkg-config calls it"),
        "package": attr.string(mandatory = True, doc = "the Debian package that has it"),
        "target": attr.string(mandatory = True, doc = "the cc_library's name"),
        "_build_file": attr.label(default = "//third_party/pkg_config:library.BUILD"),
    },
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)

# Libraries that are found in this way; each has a folder that says what it is for.
_LIBRARIES = {
    "pcre2": ("libpcre2-8", "pcre2-8", ["pcre2.h"], "libpcre2-dev"),
    "sentencepiece": ("sentencepiece", "sentencepiece", ["sentencepiece_processor.h"], "libsentencepiece-dev"),
    "utf8proc": ("libutf8proc", "utf8proc", ["utf8proc.h"], "libutf8proc-dev"),
    "xxhash": ("libxxhash", "xxhash", ["xxhash.h"], "libxxhash-dev"),
}

def pkg_config_repositories(declare, names = _LIBRARIES.keys()):
    """Declares the repositories `names` by `declare(rule, name, **attributes)`."""
    for name in names:
        module, library, headers, package = _LIBRARIES[name]
        declare(
            pkg_config_repository,
            name,
            headers = headers,
            library = library,
            module = module,
            package = package,
            target = name,
        )
