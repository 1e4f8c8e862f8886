#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no declaration and no page uses a word that tests/words.txt retired. Universal Ctags reads the declarations.

usage: check_words.py [--root DIR] [--words FILE]   print each fault, exit 1 if there is one
       check_words.py --self-test                   plant retired words in a made-up tree; each must be found
"""
import argparse
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = {".h", ".cpp"}
OUTSIDE = {"build"}
HISTORY = {"docs/decisions", "docs/results", "CHANGELOG.md"}  # tell what was, in the words of then


class Words:
    def __init__(self, text):
        self.identifiers, self.phrases = [], []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "identifier" and len(words) >= 3 and (len(words) == 3 or words[3] == "in"):
                self.identifiers.append((words[1], words[2], words[4:]))
            elif words[0] == "phrase" and len(words) > 1:
                self.phrases.append(" ".join(words[1:]).lower())
            else:
                raise SystemExit(f"words.txt:{number}: neither 'identifier OLD NEW [in FOLDER...]' nor 'phrase TEXT'")
        self.any_identifier = re.compile("|".join(fnmatch.translate(old) for old, _, _ in self.identifiers) or r"(?!)")
        self.retired = functools.cache(self.retired)  # most names are declared many times

    def retired(self, name):
        """The rows whose pattern the name matches. One expression of all patterns tells that there is none."""
        if not self.any_identifier.match(name):
            return []
        return [row for row in self.identifiers if fnmatch.fnmatchcase(name, row[0])]


def tree(root):
    for folder, subfolders, names in os.walk(root):
        top = Path(folder) == root
        subfolders[:] = sorted(s for s in subfolders if s[0] != "." and not (top and s in OUTSIDE))
        yield from ((Path(folder) / n).relative_to(root) for n in sorted(names))


def declarations(root, files):
    """(file, line, name) of all that the files declare, locals and parameters included."""
    command = ["ctags", "--options=NONE", "--languages=C++", "--langmap=C++:.h.cpp", "--kinds-C++=+lpxz", "--output-format=json",
               "--fields=+n", "-f", "-", "-L", "-"]
    done = subprocess.run(command, cwd=root, input="\n".join(map(str, files)), capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        yield tag["path"], tag["line"], tag["name"]


def faults(root, words):
    files = list(tree(root))
    sources = [f for f in files if f.suffix in SOURCES]
    for path, line, name in declarations(root, sources):
        for _, instead, folders in words.retired(name):
            if not folders or any(path.startswith(f + "/") for f in folders):
                yield f"{path}:{line}: '{name}' is retired, use '{instead}'"
    for page in files:
        text = str(page)
        if page.suffix != ".md" or any(text == h or text.startswith(h + "/") for h in HISTORY):
            continue
        if page.parent != Path(".") and page.parts[0] != "docs":
            continue
        for number, line in enumerate((root / page).read_text().splitlines(), 1):
            for phrase in words.phrases:
                if phrase in line.lower():
                    yield f"{page}:{number}: '{phrase}' is retired"


def self_test():
    words = Words("identifier kMost* kMax*\nidentifier ours prelude_call in codegen\nphrase written out\n")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "codegen").mkdir()
        (root / "docs").mkdir()
        (root / "right.cpp").write_text('int kMax = 1; int f(int ours) { return ours; }  // kMostThings\n')
        (root / "docs" / "right.md").write_text("It is decomposed.\n")
        right = list(faults(root, words))
        (root / "codegen" / "x.cpp").write_text("constexpr int kMostThings = 3;\nint g() { int ours = 1; return ours; }\n")
        (root / "docs" / "x.md").write_text("It is Written out.\n")
        wrong = [f.split(": ")[0] for f in faults(root, words)]
    if right or wrong != ["codegen/x.cpp:1", "codegen/x.cpp:2", "docs/x.md:1"]:
        print(f"self-test: a clean tree gave {right}, planted words gave {wrong}")
        return 1
    return 0


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=here.parent)
    parser.add_argument("--words", type=Path, default=here / "words.txt")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    found = list(faults(args.root.resolve(), Words(args.words.read_text())))
    print("\n".join(found) or "no retired word is in use")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
