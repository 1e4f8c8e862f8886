#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines that the tests of an instrumented build reached, by folder, and the error texts that they did not.

  tests/coverage.py [BUILD]     BUILD: build/coverage; `./dev coverage` builds it, runs the unit tests and calls this
  --missed FOLDER               also the lines of FOLDER that nothing reached, as file:line: text
  --json                        machine-readable results

Exit code 1: a folder of FOLDERS is below LEAST.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ["ir", "compiler", "codegen"]  # at least LEAST of their lines
ERROR_FOLDERS = FOLDERS + ["runtime"]
# No test reaches these without a GPU: their error texts are listed apart.
GPU_FOLDERS = ("runtime/device/cuda/", "runtime/library/cudnn/", "runtime/library/cublaslt/")
LEAST = 0.9
ERROR = re.compile(r"Status\(StatusCode::|StatusCode::\w+, ?\"|(unsupported|invalid|refuse\w*|bad_\w+)\(\"")


def counts_of(data):
    """{(file, line): times} of one .gcda; sources are named from the root."""
    out = subprocess.run(["gcov", "--json-format", "--stdout", str(data)], capture_output=True, text=True, cwd=data.parent)
    found = {}
    for line in out.stdout.splitlines():
        for source in json.loads(line)["files"]:
            name = source["file"].removeprefix(str(ROOT) + "/")
            if name.split("/")[0] not in ERROR_FOLDERS:
                continue
            for row in source["lines"]:
                key = name, row["line_number"]
                found[key] = max(found.get(key, 0), row["count"])
    return found


def merged(build):
    total = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(counts_of, sorted(build.rglob("*.gcda"))):
            for key, count in found.items():
                total[key] = max(total.get(key, 0), count)
    return total


def text_of(name, line, cache={}):
    if name not in cache:
        cache[name] = (ROOT / name).read_text().splitlines()
    return cache[name][line - 1].strip() if line <= len(cache[name]) else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/coverage")
    parser.add_argument("--missed", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    total = merged(args.build.resolve())
    if not total:
        sys.exit(f"{args.build} has no counts: ./dev coverage makes them")
    folders = collections.defaultdict(lambda: [0, 0])
    errors = []
    for (name, line), count in sorted(total.items()):
        for folder in {name.split("/")[0], str(pathlib.PurePath(name).parent)}:
            folders[folder][0] += 1
            folders[folder][1] += count > 0
        if count == 0 and ERROR.search(text_of(name, line)):
            errors.append((name, line, text_of(name, line)))
    shares = {folder: reached / lines for folder, (lines, reached) in folders.items()}
    if args.json:
        print(json.dumps({"folders": {f: {"lines": n, "reached": r} for f, (n, r) in folders.items()},
                          "errors_missed": [{"file": f, "line": n, "text": t} for f, n, t in errors]}, indent=1))
    else:
        for folder in sorted(folders):
            lines, reached = folders[folder]
            print(f"{folder:32} {reached:6} of {lines:6}  {100 * shares[folder]:5.1f} %")
        for title, of_gpu in (("error texts that no test reached", False), ("those that need a GPU", True)):
            some = [error for error in errors if error[0].startswith(GPU_FOLDERS) == of_gpu]
            print(f"{title}: {len(some)}")
            for name, line, text in some:
                print(f"  {name}:{line}: {text}")
        for (name, line), count in sorted(total.items()):
            if count == 0 and any(name.startswith(folder + "/") for folder in args.missed):
                print(f"{name}:{line}: {text_of(name, line)}")
    return 0 if all(shares.get(folder, 0) >= LEAST for folder in FOLDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
