#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no two files define a type of the same name in the same namespace. The program would keep one constructor
for both (the one-definition rule), and neither the compiler nor the linker says so. Universal Ctags reads the definitions.

usage: check_types.py [--root DIR]    print each fault, exit 1 if there is one
       check_types.py --self-test     plant faults in a made-up tree; each must be found
"""
import argparse
import collections
import json
import os
import subprocess
import sys
from pathlib import Path

from planted import count_mistakes

SOURCES = {".h", ".cpp"}
# Each sample and each test of an installed tree is a program of its own.
OUTSIDE = {"build", "samples", "tests/consumer"}


def sources(root):
    for folder, subfolders, names in os.walk(root):
        inside = Path(folder).relative_to(root)
        subfolders[:] = sorted(s for s in subfolders if s[0] != "." and (inside / s).as_posix() not in OUTSIDE)
        yield from ((inside / name).as_posix() for name in sorted(names) if Path(name).suffix in SOURCES)


def definitions(root):
    """{qualified name: files}, without what is in an anonymous namespace or in a function"""
    command = ["ctags", "--languages=C++", "--langmap=C++:.h.cpp", "--kinds-C++=cgsu", "--fields=+sZ",
               "--output-format=json", "-f", "-", "-L", "-"]
    listed = subprocess.run(command, input="\n".join(sources(root)), cwd=root, capture_output=True, text=True, check=True)
    found = collections.defaultdict(set)
    for line in listed.stdout.splitlines():
        tag = json.loads(line)
        scope = tag.get("scope", "")
        if tag.get("_type") == "tag" and "__anon" not in scope + tag["name"] and tag.get("scopeKind") != "function":
            found[f"{scope}::{tag['name']}" if scope else tag["name"]].add(tag["path"])
    return found


def faults(root):
    for name, files in sorted(definitions(root).items()):
        if len(files) > 1:
            yield f"{name} is defined in {' and in '.join(sorted(files))}: give one another name"


CLEAN = {
    "a/one.h": "namespace n {\nstruct First;\nstruct Second { int a; };\n}\n",
    "a/two.h": "namespace n {\nstruct First { int a; };\nnamespace m {\nclass Second {};\n}\n}\n",
    "a/one.cpp": "namespace n {\nnamespace {\nstruct Finder {};\n}\nstruct First::Part {};\n}\n",
    "a/two.cpp": "namespace n {\nnamespace {\nstruct Finder {};\n}\n}\n",
    "samples/one.cpp": "namespace n {\nstruct Second {};\n}\n",
}
PLANTED = [
    ("b/x.h", "namespace n {\nstruct Second {};\n}\n", "n::Second is defined in a/one.h and in b/x.h"),
    ("b/x.cpp", "namespace n {\nclass First {\n};\n}\n", "n::First is defined in a/two.h and in b/x.cpp"),
    ("b/x.h", "namespace n::m {\nenum class Second { a };\n}\n", "n::m::Second is defined in a/two.h and in b/x.h"),
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--root", default=Path(__file__).resolve().parent.parent)
    arguments.add_argument("--self-test", action="store_true")
    options = arguments.parse_args()
    if options.self_test:
        return 1 if count_mistakes(CLEAN, PLANTED, faults) else 0
    found = list(faults(options.root))
    print("\n".join(found) if found else "each type has one definition")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
