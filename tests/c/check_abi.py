#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the binary interface of include/fusec/c.h with the one that was written down, by abidiff of Debian's abigail-tools.

usage: check_abi.py <c.h> <file.abi>            print what changed, exit 1 if a program that was built before would break
       check_abi.py <c.h> <file.abi> --write    write the interface down
       check_abi.py <c.h> <file.abi> --planted  check that planted breaks are found

A library of empty functions is made of the header, so that functions, structs and enums are compared whatever the build has of debug
information. That the real library shows these functions is checked by check_exports.py. Exits 77 where abidiff is not installed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

DECLARATION = re.compile(r"FUSEC_C_API\s+([^;{}]*?)\b(fusec_\w+)\(([^;]*)\);", re.S)
BREAKS = {  # what an older program would not survive: (in the header, its replacement)
    "a function is gone": (r"FUSEC_C_API const char\* fusec_version\(void\);", ""),
    "a parameter changed": (r"size_t size, fusec_session_pool\*\* out", "uint32_t size, fusec_session_pool** out"),
    "a member changed": (r"uint64_t byte_offset;", "uint32_t byte_offset;"),
    "a member was put in": (r"int64_t\* strides;", "int64_t* bounds; int64_t* strides;"),
    "an error code changed": (r"FUSEC_OUT_OF_MEMORY = 5", "FUSEC_OUT_OF_MEMORY = 55"),
}
ADDED = (r"FUSEC_C_API const char\* fusec_version\(void\);", r"\g<0> FUSEC_C_API int fusec_one_more(int32_t);")


def stubs(header):
    """A C source that defines each declared function, and uses the enums so that they are seen."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    lines = ['#include "c.h"']
    for result, name, parameters in DECLARATION.findall(text):
        numbered = iter(range(100))
        named = ", ".join(p if p == "void" or re.search(r"\w\s+\**\w+\s*$|\)\s*\(|\*\s*\w+$", p) else f"{p} p{next(numbered)}"
                          for p in re.split(r",\s*(?![^()]*\))", parameters))
        lines.append(f"{result}{name}({named}) {{ __builtin_trap(); }}")
    for i, values in enumerate(re.findall(r"\benum\s*\{(.*?)\}\s*;", text, flags=re.S)):
        constants = re.findall(r"(\w+)\s*=", values)
        # Values of enums without a name have no symbol: the length of an array of this type says them.
        lines += [f"FUSEC_C_API struct enum_{i}_{c} {{ char value[{c} + 1]; }} *fusec_enum_{c};\n"
                  f"struct enum_{i}_{c} *fusec_enum_{c};" for c in constants]
    return "\n".join(lines) + "\n"


def build(header, folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "c.h"), "w") as f:
        f.write(header)
    with open(os.path.join(folder, "stubs.c"), "w") as f:
        f.write(stubs(header))
    library = os.path.join(folder, "libstubs.so")
    subprocess.run([os.environ.get("CC", "gcc"), "-g", "-shared", "-fPIC", "-w", "-I", folder, "-o", library, os.path.join(folder, "stubs.c")],
                   check=True)
    return library


def write(library, path):
    flags = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"]
    subprocess.run(["abidw", *flags, "--out-file", path, library], check=True)


def changes(old, library, *flags):
    ran = subprocess.run(["abidiff", *flags, old, library], capture_output=True, text=True)
    if ran.returncode & 3:
        sys.exit(f"abidiff failed: {ran.stdout}{ran.stderr}")
    return ran.stdout if ran.returncode else ""


def check_planted(header, folder):
    old = os.path.join(folder, "old.abi")
    write(build(header, os.path.join(folder, "old")), old)
    missed = []
    for i, (what, (pattern, by)) in enumerate(BREAKS.items()):
        broken, count = re.subn(pattern, by, header, count=1)
        if count == 0 or not changes(old, build(broken, os.path.join(folder, str(i))), "--no-added-syms"):
            missed.append(what)
    grown = build(re.sub(*ADDED, header, count=1), os.path.join(folder, "grown"))
    if changes(old, grown, "--no-added-syms"):
        missed.append("that a function more breaks nothing")
    if not changes(old, grown):
        missed.append("that there is a function more")
    return [f"it was not found: {what}" for what in missed]


def check(header, old, library):
    broken = changes(old, library, "--no-added-syms")
    if broken:
        return [broken, f"Programs that were built before break. Raise FUSEC_ABI_MAJOR and write the interface to {old} by ./dev abi, or change "
                        "the header back."]
    added = changes(old, library)
    return [added, f"The interface grew. Raise FUSEC_ABI_MINOR once for each release and write it to {old} by ./dev abi."] if added else []


if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
if shutil.which("abidiff") is None:
    print("abidiff is not installed (Debian: abigail-tools)")
    sys.exit(77)
source = open(sys.argv[1]).read()
with tempfile.TemporaryDirectory() as temporary:
    if sys.argv[3:] == ["--planted"]:
        found = check_planted(source, temporary)
    elif sys.argv[3:] == ["--write"]:
        write(build(source, os.path.join(temporary, "now")), sys.argv[2])
        found = []
    else:
        found = check(source, sys.argv[2], build(source, os.path.join(temporary, "now")))
print("\n".join(found) if found else "the interface is as it should be")
sys.exit(1 if found else 0)
