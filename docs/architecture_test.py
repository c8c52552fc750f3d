# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Holds the figure and the table of docs/architecture.md to the dependencies that Bazel has analysed.

    architecture_test.py PAGE EDGES

EDGES is what layer_graph (//bazel:layer_graph.bzl) writes. The table has every dependency between two
folders. The figure has those that no chain of others implies.
"""

import re
import sys

NODE = r'(\w+)(?:\["([^"]+)"\])?'
ARROW = re.compile(r"^\s*%s\s*-->\s*%s\s*$" % (NODE, NODE))
FOLDER = re.compile(r"`([^`]+)`")


def read_edges(path):
    """{(user, used): a pair of targets that shows it}"""
    edges = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            user, used, user_target, used_target = line.split()
            edges.setdefault((user, used), "%s depends on %s" % (user_target, used_target))
    return edges


def read_page(path):
    """({arrow: line}, {folder: (line, what it uses)}) of the page."""
    arrows, rows, names = {}, {}, {}
    inside, in_table = False, False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("```"):
                inside = line.startswith("```mermaid")
            elif inside and "-->" in line:
                match = ARROW.match(line)
                if not match:
                    sys.exit("%s:%d: not an arrow that this test can read: %s" % (path, number, line))
                user, user_name, used, used_name = match.groups()
                names.update({k: v for k, v in ((user, user_name), (used, used_name)) if v})
                if (user, used) in arrows:
                    sys.exit("%s:%d: the arrow is there twice" % (path, number))
                arrows[(user, used)] = number
            in_table = line.startswith("|") and (in_table or "what it uses" in line)
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if in_table and FOLDER.fullmatch(cells[0]):
                rows[cells[0].strip("`")] = (number, set(FOLDER.findall(cells[2])))
    return {(names.get(a, a), names.get(b, b)): n for (a, b), n in arrows.items()}, rows


def implied(edge, edges):
    """Whether a chain of other edges leads the same way."""
    seen, waiting = set(), [edge[0]]
    while waiting:
        at = waiting.pop()
        for user, used in edges:
            if user == at and (user, used) != edge and used not in seen:
                seen.add(used)
                waiting.append(used)
    return edge[1] in seen


def complaints(page, arrows, rows, edges):
    if not arrows or not rows:
        yield "%s: no figure (```mermaid) or no table (with a column 'what it uses')" % page
    for (user, used), why in sorted(edges.items()):
        if user not in rows:
            yield "%s: the table has no row of `%s`; add one (%s)" % (page, user, why)
        elif used not in rows[user][1]:
            yield "%s:%d: add `%s` to what `%s` uses: %s" % (page, rows[user][0], used, user, why)
        if not implied((user, used), edges) and (user, used) not in arrows:
            last = max(arrows.values(), default=0)
            yield "%s:%d: add the line '%s --> %s' to the figure, after this one: %s" % (
                page, last, user, used, why)
    for folder, (number, uses) in sorted(rows.items()):
        for used in sorted(uses):
            if (folder, used) not in edges:
                yield "%s:%d: take `%s` out: no target of `%s` depends on it" % (
                    page, number, used, folder)
    for (user, used), number in sorted(arrows.items()):
        if (user, used) not in edges:
            yield "%s:%d: take the line out: no target of %s depends on %s" % (
                page, number, user, used)
        elif implied((user, used), edges):
            yield "%s:%d: take the line out: other arrows lead from %s to %s already" % (
                page, number, user, used)


def main():
    page, edges = sys.argv[1], read_edges(sys.argv[2])
    if len(edges) < 20:
        sys.exit("%s has only %d edges" % (sys.argv[2], len(edges)))
    found = list(complaints(page, *read_page(page), edges))
    print("\n".join(found) or "%d dependencies between folders, all of them as the page says" % len(edges))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
