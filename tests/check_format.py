#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that C++ sources look as clang-format writes them, and that no line passes the column limit, op tables included.

usage: check_format.py [--root DIR]   print each fault, exit 1 if there is one; `./dev format` mends the first kind
       check_format.py --self-test    plant faults in a made-up tree; each must be found
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FORMATTED = {".h", ".cpp"}
LIMITED = FORMATTED | {".def"}
OUTSIDE = {"build"}


def sources(root):
    for folder, subfolders, names in os.walk(root):
        top = Path(folder) == Path(root)
        subfolders[:] = sorted(s for s in subfolders if s[0] != "." and not (top and s in OUTSIDE))
        yield from (Path(folder) / n for n in sorted(names) if Path(n).suffix in LIMITED)


def faults(root):
    limit = int(re.search(r"^ColumnLimit: (\d+)", (root / ".clang-format").read_text(), re.M)[1])
    files = list(sources(root))
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > limit:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; the limit is {limit}"
    formatted = [str(path) for path in files if path.suffix in FORMATTED]
    if not formatted:
        yield f"{root}: no source file was found"
        return
    done = subprocess.run(["clang-format", "--dry-run", *formatted], capture_output=True, text=True)
    if done.returncode != 0:
        yield f"clang-format: {done.stderr.strip()}"
    for path in sorted({found[1] for found in re.finditer(r"^(.+?):\d+:\d+: warning: ", done.stderr, re.M)}):
        yield f"{Path(path).relative_to(root)}: is not formatted; run ./dev format"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / ".clang-format").write_text("BasedOnStyle: Google\nColumnLimit: 40\n")
        (root / "right.cpp").write_text("int a = 1;\n")
        right = list(faults(root))
        (root / "wide.def").write_text("OP(" + "a" * 40 + ")\n")
        (root / "loose.h").write_text("int   a;\n")
        wrong = list(faults(root))
    found = [f.split(":")[0] for f in wrong]
    if right or found != ["wide.def", "loose.h"]:
        print(f"self-test: a clean tree gave {right}, planted faults gave {wrong}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    found = list(faults(args.root.resolve()))
    print("\n".join(found) or "every file is formatted")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
