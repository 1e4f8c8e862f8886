#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what libfusec-c or libfusec-c-runtime shows with what include/fusec/c.h declares, and checks what the library needs.

usage: check_exports.py <c.h> <libfusec-c.so> [--shared-protobuf]    print each difference, exit 1 if there is one

The library shows the declared functions with the version FUSEC_0, to oneDNN the OpenMP that it runs on, and to fusec and fusec-compiler
the commands. It needs no glibc newer than 2.34, no libstdc++ and no protobuf, so that it runs on systems older than the one that built it
and beside every other protobuf, but for --shared-protobuf.
"""
import re
import subprocess
import sys

GLIBC = (2, 34)


def symbols(library, *flags):
    shown = subprocess.run(["nm", "-D", "--with-symbol-versions", *flags, library], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in shown.splitlines()]


def faults(header, library, shared_protobuf):
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    declared = set(re.findall(r"\b(fusec_\w+)\(", text))
    shown = {name for name in symbols(library, "--defined-only") if not re.fullmatch(r"(FOMP|fmp)_\w+@@FUSEC_OPENMP|fusec_tool_(main|packages)@@FUSEC_TOOL|FUSEC_\w+", name)}
    expected = {f"{name}@@FUSEC_0" for name in declared}
    yield from (f"{name} is declared in {header}, and {library} does not show it" for name in sorted(expected - shown))
    yield from (f"{library} shows {name}, which {header} does not declare" for name in sorted(shown - expected))
    for name in symbols(library, "--undefined-only"):
        version = re.search(r"@GLIBC_(\d+)\.(\d+)", name)
        if version and (int(version[1]), int(version[2])) > GLIBC:
            yield f"{library} needs {name}, and glibc {GLIBC[0]}.{GLIBC[1]} must do"
        if "@GLIBCXX_" in name or "@CXXABI_" in name:
            yield f"{library} needs {name} of a libstdc++, which must be inside"
        if "protobuf" in name and not shared_protobuf:
            yield f"{library} needs {name} of a protobuf, which must be inside"


shared_protobuf = sys.argv[3:] == ["--shared-protobuf"]
if len(sys.argv) != 3 and not shared_protobuf:
    sys.exit(__doc__)
found = list(faults(sys.argv[1], sys.argv[2], shared_protobuf))
print("\n".join(found) if found else "the library shows what the header declares")
sys.exit(1 if found else 0)
