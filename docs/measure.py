#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures patterns and whole models and writes the tables of docs/performance.md.

usage: measure.py patterns RESULTS.json [--tool FUSEC] [--patterns DIR] [--duration SECONDS] [--repeat 3]
       measure.py run RESULTS.json [--tool FUSEC] [--models A.onnx B.onnx ...] [--only batches|library|own|start|memory]
       measure.py fill RESULTS.json [--page docs/performance.md]
       measure.py price-run FOLDER [--tool FUSEC] [--models A.onnx B.onnx ...] [--precisions f32]     precise and exact, in turn
       measure.py price FOLDER... [--page docs/numerics.md]     of these files, or of those of tests/gpu.sh price
       measure.py gpu FOLDER... [--page docs/performance.md]     what tests/gpu.sh left in its output folders

`patterns` and `run` add to RESULTS.json, `run` model by model, so that it can be done in parts; on a machine that does
nothing else. `fill` and `gpu` replace what lies between the marks "<!-- NAME: begin -->" and "<!-- NAME: end -->" of the page;
a table of which the folders have nothing stays as it is.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BATCHES = "1,7,64"


def call(tool, *args):
    done = subprocess.run([tool, *args, "--random-weights", "1", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def batches(tool, model):
    """One process and one Session for all batches, nothing cached: each kernel is compiled once, before the first run."""
    result = call(tool, "bench", model, "--batch", BATCHES, "--no-cache", "--warmup", "1", "--duration", "1")
    result["compiled_once"] = all(row["compiled_kernels"] == result["distinct_kernels"] for row in result["batches"])
    return result


def library(tool, model):
    result = call(tool, "bench", model, "--library-sum", "--duration", "6")["library_sum"]
    del result["groups"]
    return result


def own(tool, model):
    """As `library`, but weights rotate over as much memory as those of the model take."""
    bytes_ = call(tool, "inspect", model)["constant_bytes"]
    result = call(tool, "bench", model, "--library-sum", "--duration", "3", "--rotate-mb", str(-(-bytes_ // 1000000)))
    del result["library_sum"]["groups"]
    return result["library_sum"]


def start(tool, model):
    """Later processes find all kernels of the first; of five of them the one with the median time."""
    keys = ("compile_ms", "ready_ms", "compiled_kernels", "cached_kernels", "distinct_kernels")
    with tempfile.TemporaryDirectory() as folder:
        runs = [call(tool, "bench", model, "--runs", "5", "--cache-dir", folder) for _ in range(6)]
    runs = [{k: run[k] for k in keys} for run in runs]
    return {"cold": runs[0], "warm": sorted(runs[1:], key=lambda run: run["ready_ms"])[2]}


def memory(tool, model):
    keys = ("ops", "launches", "generated", "library", "arena_bytes", "live_lower_bound_bytes", "constant_bytes")
    result = call(tool, "inspect", model)
    return {k: result[k] for k in keys}


STEPS = {"batches": batches, "library": library, "own": own, "start": start, "memory": memory}


def origin():
    """Date, commit and machine; ends the script where the tree differs from its commit."""
    done = subprocess.run([ROOT / "docs/origin.sh"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return done.stdout.strip()


def load(path):
    return json.loads(path.read_text()) if path.exists() else {"models": {}, "patterns": []}


def save(path, results):
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def patterns(options):
    path = Path(options.results)
    results = load(path)
    results.setdefault("origins", {})["patterns"] = origin()
    command = [options.tool, "bench", "--patterns", options.patterns, "--cycles", "--no-cache", "--json",
               "--duration", str(options.duration)]
    repeats = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["patterns"]
               for _ in range(options.repeat)]
    # Of each pattern the run with the median score; cycles are the least, since what disturbs them only adds.
    results["patterns"] = []
    for rows in zip(*repeats):
        row = sorted(rows, key=lambda r: r["score"])[len(rows) // 2]
        results["patterns"].append(row | {"cycles_per_16": min(r["cycles_per_16"] for r in rows)})
    save(path, results)


def run(options):
    path = Path(options.results)
    results = load(path)
    models = options.models or sorted((ROOT / "tests/models").glob("*.onnx"))
    for model in map(Path, models):
        for step in options.only or STEPS:
            results.setdefault("origins", {})[step] = origin()
            results["models"].setdefault(model.stem, {})[step] = STEPS[step](options.tool, str(model))
            save(path, results)
            print(model.stem, step, flush=True)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ms(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def models_table(results):
    head = ["model", "ops", "launches", "ms at 1", "at 7", "at 64", "library calls alone, ms", "added", "added, warm"]
    rows = []
    for name, r in sorted(results["models"].items()):
        medians = [ms(row["median_ms"]) for row in r["batches"]["batches"]]
        rows.append([name, str(r["memory"]["ops"]), str(r["memory"]["launches"]), *medians, ms(r["library"]["sum_ms"]),
                     f"{100 * r['library']['overhead']:+.0f} %", f"{100 * r['own']['overhead']:+.0f} %"])
    return table(head, rows)


def memory_table(results):
    head = ["model", "arena, kB", "lower bound, kB", "arena / bound", "constants, MB"]
    rows = []
    for name, r in sorted(results["models"].items()):
        m = r["memory"]
        rows.append([name, f"{m['arena_bytes'] / 1e3:.1f}", f"{m['live_lower_bound_bytes'] / 1e3:.1f}",
                     f"{m['arena_bytes'] / m['live_lower_bound_bytes']:.3f}", f"{m['constant_bytes'] / 1e6:.1f}"])
    return table(head, rows)


def start_table(results):
    head = ["model", "kernels", "cold compile_ms", "cold ready_ms", "warm compile_ms", "warm ready_ms", "compiled when warm"]
    rows = []
    for name, r in sorted(results["models"].items()):
        cold, warm = r["start"]["cold"], r["start"]["warm"]
        rows.append([name, str(cold["distinct_kernels"]), *(f"{t:.0f}" for t in (
            cold["compile_ms"], cold["ready_ms"], warm["compile_ms"], warm["ready_ms"])), str(warm["compiled_kernels"])])
    return table(head, rows)


def patterns_table(results):
    head = ["pattern", "MB", "copy, GB/s", "copy_ms", "median_ms", "score", "rounds", "cycles / 16", "kB per task"]
    rows = []
    for r in results["patterns"]:
        rows.append([r["pattern"], f"{r['bytes'] / 1e6:.1f}", f"{r['copy_gb_per_s']:.0f}", f"{r['copy_ms']:.3f}",
                     f"{r['median_ms']:.3f}", f"{r['score']:.2f}", f"{r['kept']} of {r['runs']}",
                     f"{r['cycles_per_16']:.1f}", f"{r['task_bytes'] / 1e3:.1f}"])
    return table(head, rows)


TABLES = {"patterns": patterns_table, "models": models_table, "memory": memory_table, "start": start_table}
PRECISIONS = ("f32", "f16")
PEERS = ("eager", "graph", "reduce-overhead")


def write_tables(page, tables):
    text = page.read_text()
    for name, rows in tables.items():
        marks = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.S)
        if not marks.search(text):
            sys.exit(f"{page} has no marks for {name}")
        text = marks.sub(lambda m: m[1] + "\n" + rows + "\n\n" + m[2], text)
    page.write_text(text)


def fill(options):
    results = json.loads(Path(options.results).read_text())
    grown = [name for name, r in results["models"].items() if not r["batches"]["compiled_once"]]
    if grown:
        sys.exit("compiled more than once: " + ", ".join(grown))
    origin()  # refuses a tree that differs from its commit
    # The models' table is of three steps.
    steps = {"patterns": ["patterns"], "models": ["batches", "library", "own"], "memory": ["memory"], "start": ["start"]}
    told = {name: " ".join(dict.fromkeys(results["origins"][step] for step in of)) for name, of in steps.items()}
    write_tables(Path(options.page), {name: make(results) + "\n\n" + told[name] for name, make in TABLES.items()})


def parsed(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


PEER_TIMES = "peers_models.json"


def gpu_results(folders):
    """{file name: contents} of all folders; of the peers' times, which one file holds, each folder adds its models"""
    results = {path.name: parsed(path) for folder in folders for path in sorted(Path(folder).glob("*.json"))}
    results[PEER_TIMES] = {name: row for folder in folders for name, row in (parsed(Path(folder) / PEER_TIMES) or {}).items()}
    return results


def origins_told(folders):
    """The line under a table of what these folders hold: out of their origin.json, each said once"""
    origins = [found for found in (parsed(Path(folder) / "origin.json") for folder in folders) if found]
    told = " ".join(dict.fromkeys(o.get("told") or f"Measured {o['date']} at commit {o['commit']} on {o['machine']}." for o in origins))
    if len(origins) < len(folders) or re.search("unknown|dirty", told):
        sys.exit("a folder's origin.json is missing, or names no commit: pack a tree without changes (./dev gpu-pack)")
    return told


def gpu_names(results, what):
    """The models of files what.MODEL.PRECISION.json"""
    return sorted({name.split(".")[1] for name, r in results.items() if name.startswith(what + ".") and r is not None})


def gpu_patterns(results):
    rows = [[r["pattern"], f"{r['bytes'] / 1e6:.1f}", f"{r['copy_ms'] * 1e3:.1f}", f"{r['median_ms'] * 1e3:.1f}", f"{r['score']:.2f}"]
            for r in (results.get("patterns.json") or {"patterns": []})["patterns"]]
    return rows and table(["pattern", "MB", "copy, us", "us", "score"], rows)


def gpu_models(results):
    rows, peers = [], results[PEER_TIMES]
    shown = [how for how in PEERS if any(how in row for row in peers.values())]
    for name in gpu_names(results, "bench"):
        for precision in PRECISIONS:
            bench, again = (results.get(f"{what}.{name}.{precision}.json") for what in ("bench", "again"))
            for r in (bench or {"batches": []})["batches"]:
                peer = peers.get(f"{name}/{precision}x{r['batch']}", {})
                row = [name, f"{precision} x {r['batch']}", f"{r['median_ms']:.3f}"]
                row += [f"{peer[how]:.3f}" if how in peer else "" for how in shown]
                first = r["batch"] == 1 and again is not None
                row += [str(r["launches"]), f"{bench['compile_ms']:.0f}", f"{again['ready_ms']:.0f}"] if first else [""] * 3
                rows.append([*row, f"{r['host_us']:.1f}"])
    head = ["model", "precision x batch", "fusec", *shown, "launches", "compile, ms", "ready, ms", "host, us"]
    return rows and table(head, rows)


def gpu_tuning(results):
    rows = []
    for name in gpu_names(results, "tune"):
        for precision in PRECISIONS:
            r, before, after = (results.get(f"{what}.{name}.{precision}.json") for what in ("tune", "bench_before", "bench_tuned"))
            if r is None or before is None or after is None:
                continue
            rows.append([name, precision, str(len(r["layers"])), f"{r['heuristic_us']:.1f}", f"{r['tuned_us']:.1f}", f"{r['seconds']:.1f}",
                         f"{before['median_ms']:.3f}", f"{after['median_ms']:.3f}"])
    head = ["model", "precision", "layers timed", "heuristic, us", "fastest, us", "seconds", "the model, ms", "tuned, ms"]
    return rows and table(head, rows)


def gpu(options):
    results = gpu_results(options.folders)
    tables = {"gpu patterns": gpu_patterns(results), "gpu models": gpu_models(results), "gpu tuning": gpu_tuning(results)}
    told = origins_told(options.folders)
    write_tables(Path(options.page), {name: rows + "\n\n" + told for name, rows in tables.items() if rows})


PRICED = ("mobilenet_v3_large", "resnet18", "resnet50", "squeezenet1_1", "vit_b_16")


def price_run(options):
    models = options.models or [ROOT / f"tests/models/{name}.onnx" for name in PRICED]
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "origin.json", {"told": origin()})
    for model in map(Path, models):
        for precision in options.precisions:
            for turn in "123":
                for numerics in ("precise", "exact"):
                    result = call(options.tool, "bench", str(model), "--device", "cpu", "--precision", precision, "--numerics", numerics)
                    save(folder / f"price.{model.stem}.{precision}.{numerics}.{turn}.json", result)


def price(options):
    """One table for a CPU and one for a GPU, by the device that the files name."""
    times, sources = {}, {}
    for folder in options.folders:
        for path in sorted(Path(folder).glob("price.*.json")):
            r = parsed(path)
            if r is None:
                continue
            _, model, precision, numerics, _, _ = path.name.split(".")
            kind = "cpu" if r["device"].startswith("cpu") else "gpu"
            sources.setdefault(kind, {})[folder] = True
            times.setdefault(kind, {}).setdefault((model, precision), {}).setdefault(numerics, []).append(r["median_ms"])
    for kind, found in times.items():
        rows = []
        for (model, precision), by in sorted(found.items()):
            precise, exact = (statistics.median(by[numerics]) for numerics in ("precise", "exact"))
            rows.append([model, precision, f"{precise:.3f}", f"{exact:.3f}", f"{exact / precise:.2f}"])
        rows = table(["model", "", "precise, ms", "exact, ms", "exact / precise"], rows)
        write_tables(Path(options.page), {f"price {kind}": rows + "\n\n" + origins_told(list(sources[kind]))})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    zero = commands.add_parser("patterns")
    zero.add_argument("results")
    zero.add_argument("--tool", default=str(ROOT / "build/release/bin/fusec"))
    zero.add_argument("--patterns", default=str(ROOT / "tests/patterns"))
    zero.add_argument("--duration", type=float, default=1)
    zero.add_argument("--repeat", type=int, default=3)
    one = commands.add_parser("run")
    one.add_argument("results")
    one.add_argument("--tool", default=str(ROOT / "build/release/bin/fusec"))
    one.add_argument("--models", nargs="*")
    one.add_argument("--only", nargs="*", choices=list(STEPS))
    two = commands.add_parser("fill")
    two.add_argument("results")
    two.add_argument("--page", default=str(ROOT / "docs/performance.md"))
    three = commands.add_parser("gpu")
    three.add_argument("folders", nargs="+")
    three.add_argument("--page", default=str(ROOT / "docs/performance.md"))
    four = commands.add_parser("price-run")
    four.add_argument("folder")
    four.add_argument("--tool", default=str(ROOT / "build/release/bin/fusec"))
    four.add_argument("--models", nargs="*")
    four.add_argument("--precisions", nargs="*", default=["f32"])
    five = commands.add_parser("price")
    five.add_argument("folders", nargs="+")
    five.add_argument("--page", default=str(ROOT / "docs/numerics.md"))
    options = parser.parse_args()
    {"patterns": patterns, "run": run, "fill": fill, "gpu": gpu, "price-run": price_run, "price": price}[options.command](options)


if __name__ == "__main__":
    main()
