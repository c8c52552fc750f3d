# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Holds the documents to the tree: links, anchors, targets, flags, paths and messages.

    pages_test.py README [ROOT]

ROOT is the tree; by default the one that README is a link into. What the documents name lies all over it, so
the test reads the tree itself and is never cached.
"""

import glob
import os
import re
import sys

FENCE = re.compile(r"^```.*?^```\s*$", re.M | re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")
LABEL = re.compile(r"(?<![\w@/:])//([a-z][\w/.\-]*|\.\.\.)?(?::([\w.\-]+))?")
FLAG = re.compile(r"(?<![\w-])--([a-zA-Z][\w-]*)")
PATH = re.compile(r"`([\w.\-]+(?:/[\w.\-]+)+)(?::\d+)?`")
LITERALS = re.compile(r'"\s*\n\s*"')

# Programs that a command line may name, and where their flags are.
BAZEL = set("config cuda_archs copt compilation_mode disk_cache test_env test_filter noenable_bzlmod enable_bzlmod "
            "enable_workspace noenable_workspace registry cached help flagfile action_env jobs test_tag_filters "
            "local_test_jobs".split())
LAUNCHERS = set("map-by bind-to oversubscribe allow-run-as-root mca rtos mpi ntasks-per-node cpus-per-task gpus-per-node "
                "kill-on-bad-exit hostfile nodes nnodes node_rank master_addr rdzv_id local-dir no-python nproc_per_node rdzv-id "
                "max-restarts standalone benchmark_filter lora help version n signal input rm volume".split())


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def slug(heading):
    """The anchor that a forge gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().replace("`", "").lower()).replace(" ", "-")


class Tree:
    def __init__(self, root):
        self.root = root
        pages = ["README.md", "CONTRIBUTING.md", "tests/README.md"] + glob.glob("docs/*.md", root_dir=root)
        pages += glob.glob("examples/*/README.md", root_dir=root)
        self.pages = {page: read(os.path.join(root, page)) for page in sorted(pages)}
        self.anchors = {page: {slug(h) for h in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)}
                        for page, text in self.pages.items()}
        self.flags = set(re.findall(r"^\| `--(\w+)`", self.pages["docs/flags.md"], re.M))
        for main in glob.glob(self.at("tools/*/*.cc")) + glob.glob(self.at("benchmarks/*.cc")):
            self.flags |= set(re.findall(r"ABSL_FLAG\(\s*[\w:]+, (\w+)", read(main)))
            self.flags |= set(re.findall(r'"(?: *)--(\w+)[=\\]', read(main)))
        for program in glob.glob(self.at("benchmarks/*.cc")):
            self.flags |= set(re.findall(r'BenchmarkFlag \w+\("(\w+)"', read(program)))
        for script in glob.glob(self.at("*/*/*.py")) + glob.glob(self.at("*/*.py")):
            self.flags |= set(re.findall(r'add_argument\(\s*"--([\w-]+)"', read(script)))
        for script in [self.at("bazelw")] + glob.glob(self.at("tools/*/*.sh")):
            self.flags |= set(re.findall(r"--([a-z][\w-]+)", read(script)))
        self.flags |= {"config", "flagfile", "undefok", "help", "version"}
        self.build = {}

    def at(self, path):
        return os.path.join(self.root, path)

    def has_target(self, package, name):
        """As far as the text of BUILD files shows it; macros add an ending to a name that is there."""
        folder = self.at(package)
        if name is None:
            name = package.rsplit("/", 1)[-1]
        if not os.path.isfile(os.path.join(folder, "BUILD")):
            return False
        if os.path.exists(os.path.join(folder, name)):
            return True
        if package not in self.build:
            text = read(os.path.join(folder, "BUILD"))
            self.build[package] = set(re.findall(r'\bname = "([^"]+)"', text))
        names = self.build[package]
        return name in names or re.sub("_fuzzer$", "_fuzz_test", name) in names

    def has_path(self, path, page):
        """A path from the root, from the page's folder, or an extension left out."""
        for base in (self.root, os.path.dirname(self.at(page))):
            if glob.glob(os.path.join(base, path)) or glob.glob(os.path.join(base, path + ".*")):
                return True
        return False


def lines_of(text):
    return enumerate(text.splitlines(), 1)


def links(tree, page, text):
    for number, line in lines_of(FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)):
        for target in LINK.findall(line):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(tree.at(to)):
                yield number, "the link leads nowhere: %s" % target
            elif anchor and anchor not in tree.anchors.get(to, {anchor}):
                yield number, "%s has no heading #%s; it has: %s" % (
                    to, anchor, ", ".join(sorted(tree.anchors[to])))


def labels(tree, page, text):
    for number, line in lines_of(text):
        for package, name in LABEL.findall(re.sub(r"\w+://\S+", "", line.replace("@zeroth//", " //"))):
            below = package.endswith("...")
            package, name = package.rstrip("./"), name.rstrip(".")
            # A label of an example project is said on a line that names the project, or in its own README.
            bases = [package] + [os.path.join(folder, package).rstrip("/") for folder in
                                 [os.path.dirname(page)] + re.findall(r"examples/\w+", line)
                                 if folder.startswith("examples/")]
            if not any(os.path.isdir(tree.at(base)) if below or not (package or name)
                       else tree.has_target(base, name or None) for base in bases):
                yield number, "there is no target //%s%s" % (package, ":" + name if name else "")


def flags(tree, page, text):
    if page == "docs/faq.md":  # The first column has other programs' flags.
        text = re.sub(r"^\|[^|]*\|", "", text, flags=re.M)
    for number, line in lines_of(text):
        for flag in FLAG.findall(line):
            name = flag[2:] if flag.startswith("no") and flag[2:] in tree.flags else flag
            if name not in tree.flags | BAZEL | LAUNCHERS and "--%s//" % flag not in line and flag != "name":
                yield number, "no program here has a flag --%s" % flag


def paths(tree, page, text):
    for number, line in lines_of(FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)):
        for path in PATH.findall(line):
            top = path.split("/")[0]
            made = top.startswith("bazel-") or top == "zeroth_out"  # by Bazel, and by runs of the trainer
            if os.path.isdir(tree.at(top)) and not made and not tree.has_path(path, page):
                yield number, "there is no %s" % path


def messages(tree, page, text):
    """What the first column of the tables of troubleshooting.md quotes is what the code says."""
    if page != "docs/troubleshooting.md":
        return
    code = "\n".join(
        LITERALS.sub("", read(path)).replace('\\"', '"')
        for folder in ("api", "core", "strategies", "checkpoint", "data", "formats", "nn", "optim", "kernels", "options",
                       "plan", "train", "tools")
        for path in glob.glob(tree.at(folder) + "/**/*.cc", recursive=True) if not path.endswith("_test.cc"))
    for number, line in lines_of(text):
        match = re.match(r"\| `([^`]+)` \|", line)
        for part in match.group(1).split("…") if match else []:
            if part.strip() and part.strip() not in code:
                yield number, "no message has these words: %s" % part


def figures(tree):
    """The SVG files are what the numbers beside them draw."""
    sys.path.insert(0, tree.at("docs/figures"))
    import make_figures  # pylint: disable=import-outside-toplevel
    for name, drawing in make_figures.DRAWINGS.items():
        if read(tree.at("docs/figures/%s.svg" % name)) != drawing():
            yield "docs/figures/%s.svg: not what make_figures.py draws; make_figures.py draw writes it again" % name


def versions(tree):
    """The least versions that build.md states are those of the code."""
    def number(path, name):
        return int(re.search(name + r" = (\d+);", read(tree.at(path))).group(1))
    cudnn = number("kernels/attention/cudnn.h", "kLeastVersion")
    nccl = number("core/comm/nccl/copy_engine.cc", "kFirstVersion")
    driver = number("core/comm/nccl/copy_engine.cc", "kFirstDriver")
    frontend = re.search(r"^nvidia-cudnn-frontend==(\S+)", read(tree.at("third_party/cudnn/frontend.txt")), re.M).group(1)
    page = tree.pages["docs/build.md"]
    for name, expected in (("driver", "copy engine that of CUDA %d.%d" % (driver // 1000, driver % 1000 // 10)),
                           ("NCCL", "copy engine %d.%d;" % (nccl // 10000, nccl % 10000 // 100)),
                           ("cuDNN, optional", "| %d.%d;" % (cudnn // 10000, cudnn % 10000 // 100)),
                           ("cudnn-frontend, optional", "| %s |" % frontend)):
        row = re.search(r"^\| %s \|.*$" % name, page, re.M)
        if row is None or expected not in row.group():
            yield "docs/build.md: the row of %s among the versions of CUDA does not say: %s" % (name, expected)


def main():
    root = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.realpath(sys.argv[1]))
    tree = Tree(root)
    if len(tree.pages) < 15 or len(tree.flags) < 60:
        sys.exit("%s has %d pages and %d flags: no tree of this project" % (root, len(tree.pages), len(tree.flags)))
    found = ["%s:%d: %s" % (page, number, what) for check in (links, labels, flags, paths, messages)
             for page, text in tree.pages.items() for number, what in check(tree, page, text)]
    found += figures(tree)
    found += versions(tree)
    linked = {os.path.basename(to.split("#")[0]) for to in LINK.findall(tree.pages["README.md"])}
    found += ["README.md: no link to %s" % page for page in tree.pages
              if page.startswith("docs/") and os.path.basename(page) not in linked]
    print("\n".join(found) or "%d pages" % len(tree.pages))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
