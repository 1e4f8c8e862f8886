#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fusec advise` over models and cells of type and batch: how much of each gap its parts explain.

  python3 tests/advise_cells.py FUSEC MODELS OUT --device cuda:0 --cells f32:1,f16:1,f16:64
  python3 tests/advise_cells.py FUSEC MODELS OUT --device cpu --cells f32:1 --models resnet18,mobilenet_v3_small
  python3 tests/advise_cells.py --table OUT           the table again, of what lies there

MODELS is a folder of ONNX files; those of --models, or all of them, are taken. Each cell writes OUT/MODEL-TYPE-BATCH.json and
.err; layers that OUT/tuning.sqlite lacks are measured. A cell that fails, or takes more than --limit seconds (default 300), is
named, and the next one runs. --seconds ends the whole: no cell begins that may not be over by then. Words after -- go to advise.
The exit code is 1 where a cell failed."""
import argparse
import json
import pathlib
import subprocess
import sys
import time

PARTS = ["launch", "layout", "algorithm", "fusion", "precision", "branches", "other"]
SMALL = 0.10  # of the gap: an `other` that explains enough


def arguments():
    given, passed = sys.argv[1:], []
    if "--" in given:
        at = given.index("--")
        given, passed = given[:at], given[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="FUSEC MODELS OUT")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", default="f32:1")
    parser.add_argument("--models", default="")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--duration", default="1")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--full", action="store_true", help="measure layers as tune does, without --quick")
    options = parser.parse_args(given)
    options.passed = passed
    if len(options.paths) != (1 if options.table else 3):
        parser.error("give FUSEC, MODELS and OUT, or --table and OUT")
    return options


def command(options, model, dtype, batch, database):
    out = [options.paths[0], "advise", str(model), "--device", options.device, "--random-weights", "1", "--batch", batch, "--measure",
           "--tuning-db", str(database), "--duration", options.duration, "--no-check", "--json"]
    if not options.full:
        out.append("--quick")
    if dtype != "f32":
        out += ["--precision", dtype]
    if options.threads:
        out += ["--threads", str(options.threads)]
    return out + options.passed


def run_cell(options, model, dtype, batch, out):
    """Why it failed; empty: it did not."""
    name = f"{model.stem}-{dtype}-{batch}"
    result, errors = out / f"{name}.json", out / f"{name}.err"
    with result.open("w") as to, errors.open("w") as err:
        try:
            code = subprocess.run(command(options, model, dtype, batch, out / "tuning.sqlite"), stdout=to, stderr=err,
                                  timeout=options.limit, check=False).returncode
        except subprocess.TimeoutExpired:
            return f"more than {options.limit:g} s"
    said = errors.read_text().strip().splitlines()
    return "" if code == 0 else f"exit code {code}: {said[-1][:200] if said else 'no message'}"


def run(options, out):
    out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in options.models.split(",") if name]
    models = [path for path in sorted(pathlib.Path(options.paths[1]).glob("*.onnx")) if not wanted or path.stem in wanted]
    missing = set(wanted) - {path.stem for path in models}
    failed = [f"{name}: no such model" for name in sorted(missing)]
    begin = time.monotonic()
    longest = 0.0
    for model in models:
        for cell in options.cells.split(","):
            dtype, batch = cell.split(":")
            spent = time.monotonic() - begin
            if options.seconds and spent + longest > options.seconds:
                failed.append(f"{model.stem} {cell}: not begun, {spent:.0f} s were spent")
                continue
            why = run_cell(options, model, dtype, batch, out)
            longest = max(longest, time.monotonic() - begin - spent)
            if why:
                failed.append(f"{model.stem} {cell}: {why}")
            print(f"{model.stem} {cell}: {why or 'ok'}, {time.monotonic() - begin - spent:.0f} s", file=sys.stderr, flush=True)
    return failed


def read(path):
    try:
        return json.loads(path.read_text())["batches"]
    except (OSError, ValueError, KeyError):
        return []


def table(out):
    rows = [["cell", "measured", "bound", "library", "fusion-aware", "gap"] + PARTS + ["other/gap", "parts/gap", "other/run", "traced"]]
    small = cells = 0
    for path in sorted(out.glob("*.json")):
        for result in read(path):
            gap = result["measured_us"] - result["bound_us"]
            parts = [result["parts"][name] for name in PARTS]
            share = parts[-1] / gap if gap > 0 else float("inf")
            cells += 1
            small += abs(share) <= SMALL
            profile = result.get("profile", {})
            note = "*" if result.get("by_floors") else ""
            rows.append([path.stem + note] +
                        [f"{us:.1f}" for us in [result["measured_us"], result["bound_us"], result["library_bound_us"]["serial"],
                                                result["fusion_aware_bound_us"]["serial"], gap] + parts] +
                        [f"{100 * share:.1f}%", f"{100 * (sum(parts[:-1]) / gap if gap > 0 else float('inf')):.1f}%",
                         f"{100 * parts[-1] / result['measured_us']:.2f}%",
                         f"{profile.get('slow_down', 1):.3f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print(row[0].ljust(widths[0]) + "  " + "  ".join(text.rjust(width) for text, width in zip(row[1:], widths[1:])))
    if any(row[0].endswith("*") for row in rows):
        print("* faster than the reachable bound: held against floors")
    if cells:
        print(f"other is at most {100 * SMALL:.0f} % of the gap in {small} of {cells} cells: {100 * small / cells:.0f} %")


def main():
    options = arguments()
    out = pathlib.Path(options.paths[-1])
    failed = [] if options.table else run(options, out)
    table(out)
    for line in failed:
        print("failed: " + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
