#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads from programs and libraries, with readelf, what makes mistakes in them harder to use: positions that the loader picks,
addresses that are filled in before main and locked (BIND_NOW, RELRO), no stack or segment that is written and run, canaries on
the stack and, with --fortified, checked string and memory calls.

usage: check_hardening.py [--fortified] BUILD   what was built into BUILD/bin, lib and triton/fusec; print each fault, exit 1 if there is one
       check_hardening.py --self-test CXX       build programs without each of these; each fault must be found

Links are left out: they lead to libraries that others built.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# One of these is in libfusec; a small program need not call any.
FORTIFIED = {"libfusec.so", "libfusec-runtime.so"}
# Linked here, from an archive that others compiled.
ARCHIVED = {"libfusec-ptx-compiler.so"}
# Their only function calls one of a library, and has nothing that a canary would guard.
CALLERS = {"fusec", "fusec-compiler"}


def readelf(path):
    return subprocess.run(["readelf", "-W", "-h", "-l", "-d", "--dyn-syms", path], check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


def faults(path, fortified):
    text = readelf(path)
    out = []

    def expect(pattern, fault):
        if not re.search(pattern, text, re.M):
            out.append(f"{path}: {fault}")

    expect(r"^ +Type: +DYN ", "no position-independent program or library")
    if re.search(r"^ +INTERP ", text, re.M):
        expect(r"\(FLAGS_1\).*\bPIE\b", "no position-independent program")
    expect(r"^ +GNU_RELRO ", "no RELRO: the table of addresses stays writable")
    expect(r"\(FLAGS\).*\bBIND_NOW\b|\(FLAGS_1\).*\bNOW\b", "no BIND_NOW: addresses are filled in late, by a table that stays writable")
    expect(r"^ +GNU_STACK .* RW +0", "the stack can be run")
    if re.search(r"^ +LOAD .* RWE ", text, re.M):
        out.append(f"{path}: a segment can be both written and run")
    name = re.sub(r"\.so\..*", ".so", Path(path).name)
    if name not in ARCHIVED | CALLERS:
        expect(r" UND __stack_chk_fail\b", "no canaries on the stack")
    if fortified:
        expect(r" UND __\w+_chk\b(?<!__stack_chk)", "no checked string or memory call")
    return out


def built(folder):
    for part in ("bin", "lib", "triton/fusec"):
        for path in sorted((folder / part).glob("*")):
            if path.is_file() and not path.is_symlink():
                with open(path, "rb") as file:
                    head = file.read(18)
                if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # a program or a library
                    yield path


def check(folder, fortified):
    seen, bad = set(), []
    for path in built(Path(folder)):
        name = re.sub(r"\.so\..*", ".so", path.name)
        seen.add(name)
        bad += faults(path, fortified and name in FORTIFIED)
    if fortified and not seen & FORTIFIED:
        bad.append(f"{folder}: none of {', '.join(sorted(FORTIFIED))} is there")
    if not seen:
        bad.append(f"{folder}: no program or library is there")
    print("\n".join(bad) if bad else f"{len(seen)} files, each hardened")
    return not bad


SOURCE = """
#include <cstdio>
#include <cstring>
int main(int count, char** words) {
  char text[16];
  std::strncpy(text, words[0], static_cast<unsigned long>(count) * 8);
  return std::printf("%s", text);
}
"""
GOOD = ["-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-Wl,-z,relro,-z,now"]
PLANTS = {
    "no position-independent": ["-fno-pie", "-no-pie"],
    "no RELRO": ["-Wl,-z,norelro"],
    "no BIND_NOW": ["-Wl,-z,lazy"],
    "the stack can be run": ["-Wl,-z,execstack"],
    "no canaries": ["-fno-stack-protector"],
    "no checked": ["-U_FORTIFY_SOURCE"],
}


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "p.cpp", Path(folder) / "program"
        source.write_text(SOURCE)

        def found(flags):
            subprocess.run([compiler, *GOOD, *flags, source, "-w", "-o", program], check=True)
            return faults(program, True)

        if found([]):
            print("faults of a hardened program:", found([]))
            return False
        for fault, flags in PLANTS.items():
            if not any(fault in line for line in found(flags)):
                print(f"not found: '{fault}' of a program built with {' '.join(flags)}")
                return False
    return not check(folder, False)  # nothing read is no success


if __name__ == "__main__":
    arguments = sys.argv[1:]
    fortified = "--fortified" in arguments
    arguments = [a for a in arguments if a != "--fortified"]
    if not arguments:
        sys.exit(__doc__)
    ok = self_test(arguments[1]) if arguments[0] == "--self-test" else check(arguments[0], fortified)
    sys.exit(0 if ok else 1)
