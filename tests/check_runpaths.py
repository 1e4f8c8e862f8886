#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks where programs and libraries look for others: every element of RUNPATH and RPATH must be absolute or begin with
$ORIGIN, and no needed library may be named by a relative path. The loader takes an empty element for the current folder.

usage: check_runpaths.py FOLDER...            every ELF program and library below; print each fault, exit 1 if there is one
       check_runpaths.py --self-test PROGRAM  plant faults in copies of PROGRAM; each must be found
"""
import os
import struct
import sys
import tempfile
from pathlib import Path

DYNAMIC, LOAD = 2, 1
NEEDED, STRTAB, RPATH, RUNPATH = 1, 5, 15, 29
SKIPPED = {"CMakeFiles", "deps", "Testing"}  # objects, and packages as they were fetched


def dynamic_strings(data):
    """[(tag, text)] of NEEDED, RPATH and RUNPATH of a 64-bit little-endian program or library; [] for other files."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 16)[0] not in (2, 3):
        return []
    at, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    loads = [(virtual, offset, length) for kind, _, offset, virtual, _, length in headers if kind == LOAD]
    entries = []
    for kind, _, offset, _, _, length in headers:
        if kind == DYNAMIC:
            entries += struct.iter_unpack("<QQ", data[offset : offset + length])
    strings = next((value for tag, value in entries if tag == STRTAB), None)
    if strings is None:
        return []
    base = next(offset + strings - virtual for virtual, offset, length in loads if virtual <= strings < virtual + length)
    found = []
    for tag, value in entries:
        if tag in (NEEDED, RPATH, RUNPATH):
            found.append((tag, data[base + value : data.index(b"\0", base + value)].decode()))
    return found


def faults(path):
    out = []
    for tag, text in dynamic_strings(path.read_bytes()):
        if tag == NEEDED:
            if "/" in text and not text.startswith("/"):
                out.append(f"{path}: needs '{text}', a relative path")
            continue
        for element in text.split(":"):
            if not element.startswith(("/", "$ORIGIN", "${ORIGIN}")):
                out.append(f"{path}: '{text}' has the element '{element}', which is looked for in the current folder")
                break
    return out


def files(folder):
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        for name in sorted(names):
            path = Path(root) / name
            if path.is_file() and os.access(path, os.R_OK):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def check(folders):
    seen, bad = 0, []
    for folder in folders:
        for path in files(folder):
            seen += 1
            bad += faults(path)
    print("\n".join(bad) if bad else f"{seen} files, each with absolute or origin-relative places only")
    return not bad and seen > 0


def self_test(program):
    data = Path(program).read_bytes()
    path = next(text for tag, text in dynamic_strings(data) if tag in (RPATH, RUNPATH))
    length = len(path.encode())
    plants = {"empty at the end": "$ORIGIN/../lib" + ":" * (length - 14), "empty at the front": ":" + path[:-1],
              "relative": "lib/" + "x" * (length - 4), "other variable": "$LIB/" + "x" * (length - 5)}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "program"
        copy.write_bytes(data)
        if not check([folder]):
            return False
        for name, planted in plants.items():
            assert len(planted) == length
            copy.write_bytes(data.replace(path.encode() + b"\0", planted.encode() + b"\0"))
            if check([folder]):
                print(f"not found: {name} ('{planted}')")
                return False
        os.remove(copy)
        return not check([folder])  # nothing read is no success


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    ok = self_test(arguments[1]) if arguments[0] == "--self-test" else check(arguments)
    sys.exit(0 if ok else 1)
