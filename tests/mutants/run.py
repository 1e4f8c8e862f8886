#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants mistakes in a copy of the sources, one at a time, and sees that a unit test fails for each.

  tests/mutants/run.py [NAME or NUMBER ...]     default: all; ./dev mutants does the same
  tests/mutants/run.py --check                  only: every patch applies to the sources as they are
  tests/mutants/run.py --fuzz 20000             random graphs in place of the tests: that many with kernels evaluated, then as
                                                many compiled, until one fails

A mutant is tests/mutants/NN-what.patch: a first line "# What is planted. Test: REGEX", then a unified diff. The regex
names the tests that are tried first; if they pass, all other unit tests follow, the cheap ones first. The copy and its
build are in build/mutants. Exit code 1: a mutant survived, does not apply or does not compile.
"""
import argparse
import dataclasses
import filecmp
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants/src"
LOG = ROOT / "build/mutants/log"
PRESET = "dev"
FUZZ_PRESET = "release"
CLEAN_FUZZ = COPY / f"build/{FUZZ_PRESET}/bin/clean_fuzz_graphs"  # without a mistake
SUITES = ["compiler", "text", "ir", "codegen", "import", "runtime", "tool", ""]  # cheap ones first; "": all that is left
NOT_HERE = "^mutants"  # a planted patch does not apply a second time
# git apply must not see the repository around the copy, and ccache must hit in both.
ENV = os.environ | {"GIT_CEILING_DIRECTORIES": str(COPY.parent), "CCACHE_BASEDIR": str(COPY), "CCACHE_NOHASHDIR": "1"}


@dataclasses.dataclass
class Mutant:
    name: str
    what: str
    test: str
    path: pathlib.Path


@dataclasses.dataclass
class Outcome:
    name: str
    what: str
    state: str  # killed, survived, not applied, not compiled
    killed_by: str = ""
    seconds: float = 0

    def line(self):
        end = f"killed by {self.killed_by}" if self.state == "killed" else self.state.upper()
        return f"{self.name:34} {end}  {self.seconds:.0f} s"


def all_mutants():
    mutants = []
    for path in sorted((ROOT / "tests/mutants").glob("*.patch")):
        first = path.read_text().split("\n", 1)[0]
        match = re.fullmatch(r"# (.+)\. Test: (\S+)", first)
        if not match:
            sys.exit(f"{path.name}: the first line is not '# What is planted. Test: REGEX'")
        mutants.append(Mutant(path.stem, match[1], match[2], path))
    return mutants


def chosen(mutants, names):
    for name in names:
        if not any(m.name.startswith(name) for m in mutants):
            sys.exit(f"there is no mutant '{name}'; see --list")
    return [m for m in mutants if not names or any(m.name.startswith(n) for n in names)]


def run(*command):
    """Exit code and output; the output also goes to the log."""
    result = subprocess.run(command, cwd=COPY, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace")
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(map(str, command))}\n{result.stdout}\n")
    return result.returncode, result.stdout


def apply(mutant, where, *flags):
    command = ["git", "apply", *flags, str(mutant.path)]
    return subprocess.run(command, cwd=where, env=ENV, capture_output=True, text=True)


def source_files():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def sync():
    """Makes the copy equal to the sources. Equal files keep their time stamps, so that little is built again."""
    files = source_files()
    for name in files:
        source, target = ROOT / name, COPY / name
        if target.exists() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)  # with a new time stamp
        shutil.copymode(source, target)
    for target in [t for t in COPY.rglob("*") if t.is_file() and "build" != t.relative_to(COPY).parts[0]]:
        if str(target.relative_to(COPY)) not in files:
            target.unlink()
    deps = COPY / "build/deps"
    if not deps.exists():
        deps.parent.mkdir(parents=True, exist_ok=True)
        deps.symlink_to((ROOT / "build/deps").resolve())


def build(jobs, suite=""):
    """The programs that the tests of a suite need; all for ""."""
    targets = {"": ["all"], "tool": ["fusec", "fusec_tool_test"]}.get(suite, [f"fusec_{suite}_test"])
    return run("cmake", "--build", f"build/{PRESET}", "-j", str(jobs), "--target", *targets)


def failing_test(jobs, regex, without=()):
    """The first failing unit test whose name fits, or None."""
    leave_out = "|".join([NOT_HERE, *(f"^{suite}\\." for suite in without)])
    code, out = run("ctest", "--preset", PRESET, "-j", str(jobs), "-L", "unit", "-R", regex, "-E", leave_out,
                    "--stop-on-failure", "--no-tests=ignore")
    if code == 0:
        return None
    failed = re.findall(r"^\s*\d+ - (\S+).* \((?!Skipped|Disabled)\S.*\)\s*$", out, re.MULTILINE)
    if not failed:
        sys.exit(f"ctest failed without a failing test; see {LOG}")
    return failed[0]


def baseline(jobs):
    """Builds the copy and sees that its tests pass; remembered by the content of the sources."""
    digest = hashlib.sha256()
    for name in sorted(source_files()):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    stamp = ROOT / "build/mutants/baseline"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    print("building and testing the sources without a mistake", file=sys.stderr)
    for command in (["cmake", "--preset", PRESET], ["cmake", "--build", f"build/{PRESET}", "-j", str(jobs)]):
        code, out = run(*command)
        if code != 0:
            sys.exit(f"{out[-3000:]}\nthe sources do not build without a mistake")
    failed = failing_test(jobs, ".")
    if failed:
        sys.exit(f"{failed} fails without any mistake; see {LOG}")
    stamp.write_text(digest.hexdigest())


def kill(mutant, jobs):
    """The state of a planted mutant, and the test that killed it."""
    first = mutant.test.split(".")[0]
    rounds = [(first, mutant.test, [])]
    rounds += [(suite, f"^{suite}\\." if suite else ".", [] if suite else SUITES[:-1]) for suite in SUITES]
    for suite, regex, without in rounds:
        code, _ = build(jobs, suite)
        if code != 0:
            return "not compiled", ""
        failed = failing_test(jobs, regex, without)
        if failed:
            return "killed", failed
    return "survived", ""


def fuzz(mutant, jobs, count):
    """The state of a planted mutant, and the graph that killed it."""
    code, _ = run("cmake", "--build", f"build/{FUZZ_PRESET}", "-j", str(jobs), "--target", "fuzz_graphs")
    if code != 0:
        return "not compiled", ""
    few = min(count, 1000)  # of both kinds first: each finds some mistakes at once that the other does not
    for first, last in ((1, few), (few + 1, count)):
        for name, flags in (("evaluated", ["--kernel-evaluator"]), ("compiled", [])):
            at = first
            while at <= last:
                seed = failing_graph(f"build/{FUZZ_PRESET}/bin/fuzz_graphs", at, last + 1 - at, jobs, flags)
                if seed is None:
                    break
                if failing_graph(CLEAN_FUZZ, seed, 1, 1, flags) is None:
                    return "killed", f"graph {seed}, {name}"
                at = seed + 1  # fails without the mistake, too
    return "survived", ""


def failing_graph(program, first, count, jobs, flags):
    """The lowest seed among the first failures of each process, or None."""
    code, out = run(program, "--first", "--seed", str(first), "--count", str(count), "--jobs", str(jobs), *flags)
    seeds = sorted(int(seed) for seed in re.findall(r"^seed (\d+): ", out, re.MULTILINE))
    if not seeds and code != 0:
        sys.exit(f"fuzz_graphs failed without a failing graph; see {LOG}")
    return seeds[0] if seeds else None


def fuzz_baseline(jobs):
    for command in (["cmake", "--preset", FUZZ_PRESET], ["cmake", "--build", f"build/{FUZZ_PRESET}", "-j", str(jobs), "--target", "fuzz_graphs"]):
        code, out = run(*command)
        if code != 0:
            sys.exit(f"{out[-3000:]}\nthe sources do not build without a mistake")
    shutil.copy(COPY / f"build/{FUZZ_PRESET}/bin/fuzz_graphs", CLEAN_FUZZ)


def plant(mutant, jobs, graphs):
    start = time.monotonic()
    sync()
    applied = apply(mutant, COPY)
    if applied.returncode != 0:
        return Outcome(mutant.name, mutant.what, "not applied")
    try:
        state, test = fuzz(mutant, jobs, graphs) if graphs else kill(mutant, jobs)
    finally:
        sync()
    return Outcome(mutant.name, mutant.what, state, test, time.monotonic() - start)


def check(mutants):
    bad = 0
    for mutant in mutants:
        result = apply(mutant, ROOT, "--check")
        if result.returncode != 0:
            print(f"{mutant.name} does not apply: {result.stderr.strip()}")
            bad = 1
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all")
    parser.add_argument("--check", action="store_true", help="only see that the patches apply")
    parser.add_argument("--list", action="store_true", help="name the mutants and what they plant")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("FUSEC_JOBS", os.cpu_count() or 1)))
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="up to N random graphs in place of the tests")
    parser.add_argument("--json", action="store_true", help="machine-readable results")
    args = parser.parse_args()
    mutants = chosen(all_mutants(), args.names)
    if args.list:
        print("\n".join(f"{m.name:34} {m.what}" for m in mutants))
        return 0
    if args.check:
        return check(mutants)
    COPY.mkdir(parents=True, exist_ok=True)
    LOG.write_text("")
    sync()
    if args.fuzz:
        fuzz_baseline(args.jobs)
    else:
        baseline(args.jobs)
    outcomes = []
    for mutant in mutants:
        outcomes.append(plant(mutant, args.jobs, args.fuzz))
        if not args.json:
            print(outcomes[-1].line(), flush=True)
    killed = sum(o.state == "killed" for o in outcomes)
    if args.json:
        print(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1))
    else:
        print(f"{killed} of {len(outcomes)} killed")
    return 0 if killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
