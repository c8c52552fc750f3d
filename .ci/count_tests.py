#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""count_tests.py EVENTS STATE KNOWN INAPPLICABLE: counts the tests of one run of Bazel.

EVENTS is Bazel's event stream as JSON. The counts come from there, because a test that could not be built is missing in
the printed summary and must count as failed. KNOWN and INAPPLICABLE are regular expressions, one a line: reasons for
which a test case may skip. Prints the tests that took longest, and how many cases skipped for which reason, to standard
error; then "PASSED SKIPPED" to standard output. SKIPPED are cases with a KNOWN reason: the machine lacks something. Cases
with an INAPPLICABLE reason, whose parameters leave nothing to test, count as nothing. Any other reason is a failure.
Appends to STATE/ran and STATE/skipped the test targets that ran and those that Bazel skipped as incompatible, and to
STATE/failed those that failed and the unknown reasons, a line each.
"""
import collections
import json
import re
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree


def reasons_of(path):
    """Returns why cases of a test skipped, by its test.xml: GoogleTest's elements, or lines of a script's output that
    begin with SKIPPED:."""
    try:
        cases = xml.etree.ElementTree.parse(path)
    except xml.etree.ElementTree.ParseError as error:
        return ["%s cannot be read: %s" % (path, error)]
    # GoogleTest's message begins with the line of the source.
    found = [re.sub(r"\A\S+:\d+\n", "", element.get("message", "")).strip() for element in cases.iter("skipped")]
    for output in cases.iter("system-out"):
        text = output.text or ""
        said = re.findall(r"^SKIPPED: (.*)$", text, re.MULTILINE)
        counts = re.findall(r"^OK \(skipped=(\d+)\)$", text, re.MULTILINE)
        found += said + ["a Python test printed no SKIPPED: and a reason"] * (sum(map(int, counts)) - len(said))
    return found


def main(events, state, known, inapplicable):
    tests, passed, skipped, seconds, files = set(), set(), set(), {}, {}
    with open(events, encoding="utf-8") as stream:
        for line in stream:
            event = json.loads(line)
            identity = event["id"]
            if "targetConfigured" in identity and "testSize" in event.get("configured", {}):
                tests.add(identity["targetConfigured"]["label"])
            if "testResult" in identity:
                run = identity["testResult"]
                for output in event.get("testResult", {}).get("testActionOutput", []):
                    if output["name"] == "test.xml":
                        # If a test was attempted several times, the last attempt counts.
                        path = urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path)
                        files[run["label"], run.get("run"), run.get("shard")] = path
            if "testSummary" in event:
                label = identity["testSummary"]["label"]
                seconds[label] = int(event["testSummary"].get("totalRunDurationMillis", 0)) / 1000
                if event["testSummary"].get("overallStatus") == "PASSED":
                    passed.add(label)
            if "targetCompleted" in identity and event.get("aborted", {}).get("reason") == "SKIPPED":
                skipped.add(identity["targetCompleted"]["label"])
    skipped &= tests

    print("all tests: %.0f s; the longest:" % sum(seconds.values()), file=sys.stderr)
    for label in sorted(seconds, key=seconds.get, reverse=True)[:12]:
        print("  %6.1f s  %s" % (seconds[label], label), file=sys.stderr)

    reasons = collections.Counter()
    tests_of = collections.defaultdict(set)
    for (label, _, _), path in files.items():
        for reason in reasons_of(path):
            reasons[reason] += 1
            tests_of[reason].add(label)
    failed = sorted(tests - passed - skipped)
    lacking = 0
    if reasons:
        print("test cases that skipped:", file=sys.stderr)
    for reason, count in reasons.most_common():
        kind = ""
        if any(re.search(pattern, reason) for pattern in known):
            lacking += count
        elif any(re.search(pattern, reason) for pattern in inapplicable):
            kind = " (nothing to test)"
        else:
            kind = " FAILED: neither known_skips nor inapplicable_skips of .ci/common.sh has this reason, of " + (
                ", ".join(sorted(tests_of[reason])))
            failed.append("a test case skipped for an unknown reason: " + " ".join(reason.split()))
        print("  %5d  %s%s" % (count, reason, kind), file=sys.stderr)

    for name, labels in (("ran", sorted(tests - skipped)), ("skipped", sorted(skipped)), ("failed", failed)):
        with open("%s/%s" % (state, name), "a", encoding="utf-8") as out:
            out.writelines(label + "\n" for label in labels)
    print(len(passed), lacking)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].splitlines(), sys.argv[4].splitlines())
