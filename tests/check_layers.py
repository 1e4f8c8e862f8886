#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include directions that tests/layers.txt states, for every source file of the tree.

usage: check_layers.py [--root DIR] [--rules FILE]    print each fault, exit 1 if there is one
       check_layers.py --self-test                    plant faults in a made-up tree; each must be found
"""
import argparse
import fnmatch
import os
import re
import sys
from pathlib import Path

from planted import count_mistakes

SUFFIXES = {".h", ".hpp", ".cpp", ".c", ".cu", ".cuh", ".def", ".inc"}
RULES = "tests/layers.txt"
OUTSIDE = {"build", "cmake", "docs"}  # no product source lies there; dot folders are left out too
C_HEADERS = {"stddef.h", "stdint.h"}  # that the C interface includes; C++ has its own names for them
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def matches(path, pattern):
    """A pattern is a file, a folder with all below it, or has `*` for any text."""
    return path == pattern or path.startswith(pattern + "/") or fnmatch.fnmatchcase(path, pattern)


class Rules:
    def __init__(self, text):
        self.level, self.deep, self.apart = {}, set(), []
        self.only, self.public, self.standard, self.lean = [], [], [], []
        for number, line in enumerate(text.splitlines()):
            words = line.split("#")[0].split()
            if not words:
                continue
            keyword, rest = words[0], words[1:]
            if keyword == "apart":
                self.apart.append(rest)
            elif keyword == "only":
                self.only.append((rest[0], rest[1:]))
            elif keyword == "public":
                self.public += rest
            elif keyword == "standard":
                self.standard += rest
            elif keyword == "lean":
                split = rest.index(":")
                who = [w for w in rest[:split] if w[0] != "-"]
                but = [w[1:] for w in rest[:split] if w[0] == "-"]
                self.lean.append((who, but, rest[split + 1 :]))
            else:
                for unit in words:
                    name = unit.removesuffix("/**")
                    self.level[name] = number
                    if name != unit:
                        self.deep.add(name)

    def unit(self, path):
        """The folder on a line that the file is in: its own, or one that stands for all below it."""
        folder = os.path.dirname(path)
        deep = (u for u in self.deep if matches(folder, u))
        return folder if folder in self.level else max(deep, key=len, default=None)


def read_tree(root):
    """{path: [(line, text of the include, path of ours that it names or None)]}"""
    files = {}
    for folder, subfolders, names in os.walk(root):
        top = Path(folder) == Path(root)
        subfolders[:] = sorted(s for s in subfolders if s[0] != "." and not (top and s in OUTSIDE))
        files.update({(Path(folder) / n).relative_to(root).as_posix(): [] for n in names if Path(n).suffix in SUFFIXES})
    for path, includes in files.items():
        for number, line in enumerate((Path(root) / path).read_text(errors="replace").splitlines(), 1):
            if found := INCLUDE.match(line):
                text = found[1]
                beside = os.path.normpath(os.path.join(os.path.dirname(path), text))
                ours = next((p for p in (beside, os.path.normpath(text), "include/" + text) if p in files), None)
                includes.append((number, text, ours))
    return files


def faults(root, rules):
    files = read_tree(root)
    for path, includes in sorted(files.items()):
        unit = rules.unit(path)
        if unit is None:
            yield f"{path}: is in no folder of {RULES}"
            continue
        for number, text, ours in includes:
            where, name = f"{path}:{number}", ours or text
            other = rules.unit(ours) if ours else None
            if other and other != unit and rules.level[other] >= rules.level[unit]:
                yield f"{where}: {unit} includes {name} of {other}, which is not below it"
            for one, two in rules.apart:
                if ours and {one, two} == {next((s for s in (one, two) if matches(f, s)), f) for f in (path, ours)}:
                    yield f"{where}: {one} and {two} are apart, and this includes {name}"
            for prefix, who in rules.only:
                if name.startswith(prefix) and not any(matches(path, w) for w in who):
                    yield f"{where}: {name} is for {', '.join(who)} only"
            if other not in (None, unit, "include/fusec") and any(matches(path, w) for w in rules.public):
                yield f"{where}: {unit} sees the public headers only, not {name}"
            standard = text in C_HEADERS or ("/" not in text and "." not in text)
            if not ours and not standard and any(matches(path, w) for w in rules.standard):
                yield f"{where}: {name} is not a standard header"
    for who, but, prefixes in rules.lean:
        yield from lean_faults(files, who, but, prefixes)


def lean_faults(files, who, but, prefixes):
    for path in sorted(files):
        if not any(matches(path, w) for w in who) or any(matches(path, b) for b in but):
            continue
        seen, chains = {path}, [[path]]
        while chains:
            chain = chains.pop()
            for _, text, ours in files[chain[-1]]:
                name = ours or text
                if any(name.startswith(p) for p in prefixes):
                    yield f"{path}: the lean set reaches {name} through {' -> '.join(chain)}"
                elif ours and ours not in seen:
                    seen.add(ours)
                    chains.append(chain + [ours])


# A tree without fault for the real layers.txt, and lines that make one fault each: (file, line, what the report must say).
CLEAN = {
    "include/fusec/status.h": "#include <string>",
    "ir/graph/graph.h": '#include "fusec/status.h"',
    "compiler/passes/cse.cpp": '#include "ir/graph/graph.h"',
    "compiler/import/onnx/reader.cpp": '#include "onnx/checker.h"',
    "codegen/artifact/artifact.h": '#include "ir/graph/graph.h"',
    "codegen/llvm/writer.h": "#include <llvm/IR/Module.h>",
    "codegen/cuda/nvrtc.cpp": "#include <nvrtc.h>",
    "codegen/emit.h": '#include "codegen/llvm/writer.h"',
    "runtime/link/link.cpp": '#include "codegen/artifact/artifact.h"',
    "runtime/plan/bind.h": '#include "ir/graph/graph.h"',
    "runtime/engine/engine.cpp": '#include "compiler/passes/cse.h"\n#include "codegen/emit.h"',
    "ir/kernel/kernel.h": "",
    "compiler/passes/cse.h": '#include "ir/graph/graph.h"',
    "runtime/tool/main.cpp": '#include "runtime/plan/bind.h"\n#include <CLI/CLI.hpp>',
    "samples/hello/main.cpp": '#include "fusec/status.h"',
    "tests/ir/graph_test.cpp": '#include <gtest/gtest.h>\n#include "ir/graph/graph.h"',
}
PLANTED = [
    ("ir/graph/graph.h", '#include "compiler/passes/cse.h"', "ir/graph includes compiler/passes/cse.h of compiler/passes"),
    ("include/fusec/status.h", '#include "ir/graph/graph.h"', "include/fusec includes ir/graph/graph.h of ir/graph"),
    ("compiler/passes/cse.cpp", '#include "runtime/plan/bind.h"', "compiler/passes includes runtime/plan/bind.h of runtime/plan"),
    ("codegen/artifact/artifact.h", '#include "compiler/passes/cse.h"', "compiler and codegen are apart"),
    ("compiler/passes/cse.cpp", '#include "../../codegen/emit.h"', "compiler/passes includes codegen/emit.h of codegen"),
    ("ir/kernel/kernel.h", '#include "ir/graph/graph.h"', "ir/kernel includes ir/graph/graph.h of ir/graph"),
    ("runtime/new/x.h", "", "runtime/new/x.h: is in no folder"),
    ("runtime/plan/bind.h", '#include "compiler/passes/cse.h"', "compiler/passes/cse.h is for compiler,"),
    ("compiler/passes/cse.cpp", "#include <nvrtc.h>", "nvrtc.h is for codegen/cuda only"),
    ("compiler/passes/cse.cpp", '#  include "onnx/checker.h"', "onnx/checker.h is for compiler/import/onnx,"),
    ("runtime/link/link.cpp", "#include <dnnl.hpp>", "dnnl.hpp is for runtime/library/onednn only"),
    ("runtime/link/link.cpp", '#include "codegen/emit.h"', "runtime/link/link.cpp -> codegen/emit.h"),
    ("samples/hello/main.cpp", '#include "runtime/plan/bind.h"', "samples sees the public headers only"),
    ("include/fusec/status.h", "#include <fmt/format.h>", "fmt/format.h is not a standard header"),
    ("helpers/x.h", "", "helpers/x.h: is in no folder"),
    ("top.cpp", "", "top.cpp: is in no folder"),
]


def main():
    here = Path(__file__).resolve().parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--root", default=here.parent)
    arguments.add_argument("--rules", default=here / "layers.txt")
    arguments.add_argument("--self-test", action="store_true")
    options = arguments.parse_args()
    rules = Rules(Path(options.rules).read_text())
    if options.self_test:
        return 1 if count_mistakes(CLEAN, PLANTED, lambda root: faults(root, rules)) else 0
    found = list(faults(options.root, rules))
    print("\n".join(found) if found else "layers are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
