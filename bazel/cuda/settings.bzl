# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Build settings of the CUDA back end."""

StringSettingInfo = provider(
    doc = "The value of a string build setting.",
    fields = {"value": "the string"},
)

def _string_setting_impl(ctx):
    value = ctx.build_setting_value
    if ctx.attr.values and value not in ctx.attr.values:
        fail("%s is '%s'; expected one of: %s" % (ctx.label, value, ", ".join(ctx.attr.values)))
    return [StringSettingInfo(value = value)]

string_setting = rule(
    implementation = _string_setting_impl,
    attrs = {"values": attr.string_list(doc = "what is allowed; empty: anything")},
    build_setting = config.string(flag = True),
)
