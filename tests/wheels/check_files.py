#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks into wheels: what their libraries and programs need of the system, and how large they are.

usage: check_files.py WHEEL...         print each fault, exit 1 if there is one
       check_files.py --self-test CC   wheels with a fault each; each fault must be found

A wheel manylinux_X_Y runs where glibc X.Y is, with the C++ library of that time. So no file asks for a newer version of these, nor for
a library that is neither in the wheels nor on every such system. Above all for no libgomp, which would be the second one of a process
that has PyTorch's, and for no libprotobuf.
"""
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIMIT = 32 << 20  # bytes of a wheel
# The newest versions in the libraries of the systems that a tag stands for.
VERSIONS = {"manylinux_2_34": {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11, 0)}}
OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6",
                 "ld-linux-x86-64.so.2"}
OF_THE_WHEELS = {"libfusec-c.so.0", "libfusec-c-runtime.so.0", "libfdnn.so.3"}


def readelf(path, *flags):
    return subprocess.run(["readelf", "-W", *flags, path], check=True, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def faults_of_file(path, name, newest):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(path, "-d"))
    for library in needed:
        if library not in OF_THE_SYSTEM | OF_THE_WHEELS:
            yield f"{name} needs {library}, which is neither in the wheels nor on every system"
    asked = set(re.findall(r"Name: (\w+?)_(\d[\d.]*)\b", readelf(path, "-V").partition("Version needs")[2]))
    for kind, version in sorted(asked):
        if kind in newest and tuple(map(int, version.split("."))) > newest[kind]:
            yield f"{name} needs {kind}_{version}, and {'.'.join(map(str, newest[kind]))} must do"
    for symbol in re.findall(r"(?:GLOBAL|WEAK|UNIQUE) +(?:DEFAULT|PROTECTED) +\d+ (\S*protobuf\S*)", readelf(path, "--dyn-syms")):
        yield f"{name} shows {symbol}, which another protobuf of a process would meet"


def faults(wheel):
    tag = re.search(r"(manylinux_\d+_\d+)_x86_64", wheel.name)
    if tag is None or tag[1] not in VERSIONS:
        yield f"{wheel.name} has no tag of {', '.join(VERSIONS)}"
        return
    if wheel.stat().st_size > LIMIT:
        yield f"{wheel.name} has {wheel.stat().st_size} bytes; the limit is {LIMIT}"
    files = 0
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if archive.open(info).read(4) == b"\x7fELF":
                files += 1
                yield from faults_of_file(archive.extract(info, folder), info.filename, VERSIONS[tag[1]])
    if files == 0:
        yield f"{wheel.name} holds no library"


def self_test(compiler):
    cases = {"needs libgomp.so.1": ("int GOMP_(void); int f(void) { return GOMP_(); }", ["-lgomp"]),
             "needs GLIBC_2.36": ('#include <stdint.h>\nuint32_t arc4random(void); uint32_t f(void) { return arc4random(); }', []),
             "shows fake_protobuf": ("int fake_protobuf;", []),
             "": ("int f(void) { return 0; }", [])}
    for fault, (source, flags) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            wheel, library = Path(folder) / "a-1-py3-none-manylinux_2_34_x86_64.whl", Path(folder) / "liba.so"
            subprocess.run([compiler, "-shared", "-fPIC", "-Wl,--no-as-needed", "-x", "c", "-", "-o", library, *flags], input=source, text=True, check=True)
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.write(library, "a/liba.so")
            found = list(faults(wheel))
            if (not found) != (not fault) or not all(fault in text for text in found):
                yield f"{fault or 'no fault'}: found {found}"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--self-test":
        found = list(self_test(sys.argv[2]))
    elif sys.argv[1:]:
        found = [fault for wheel in sys.argv[1:] for fault in faults(Path(wheel))]
    else:
        sys.exit(__doc__)
    print("\n".join(found) if found else f"{' '.join(sys.argv[1:])}: no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
