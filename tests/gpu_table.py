# SPDX-License-Identifier: Apache-2.0
"""gpu_table.py OUT: the short table of what tests/gpu.sh left in OUT."""
import json
import pathlib
import statistics
import sys

out = pathlib.Path(sys.argv[1])


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def verify():
    good, replays, bad = 0, 0, []
    worst = 0.0
    for path in sorted(out.glob("verify.*.json")):
        name = path.stem.removeprefix("verify.")
        result = load(path)
        if result is None:
            error = (out / f"{path.stem}.err").read_text().strip().splitlines()
            bad.append(f"{name}: {error[-1][:160] if error else 'no output'}")
        elif not result["ok"]:
            bad.append(f"{name}: rel_l2 {result['worst_rel_l2']:.2g}")
        else:
            good += 1
            replays += sum(batch.get("replayed_graphs", 0) for batch in result["batches"])
            worst = max(worst, result["worst_rel_l2"])
    if good or bad:
        print(f"verify: {good} ok (worst rel_l2 {worst:.2g}, {replays} graph replays), {len(bad)} not")
        for line in bad:
            print("  " + line)


def patterns():
    result = load(out / "patterns.json")
    if result is None:
        return
    print("pattern score us copy_us")
    for row in result.get("patterns", []):
        score = row.get("score")
        print(f"  {row.get('pattern', row.get('model', '?')):40s} {score if score is None else round(score, 3)} "
              f"{row.get('median_ms', 0) * 1e3:.1f} {row.get('copy_ms', 0) * 1e3:.1f}")


def cpu():
    threads, rows = [], {}
    for path in sorted(out.glob("cpu.*.json"), key=lambda path: int(path.stem.split(".")[1])):
        threads.append(path.stem.split(".")[1])
        for row in (load(path) or {}).get("patterns", []):
            rows.setdefault(row["pattern"], {})[threads[-1]] = f"{row['score']:.2f} ({row['copy_gb_per_s']:.0f})" if row.get("score") else "-"
    if rows:
        print(f"score (copy GB/s) on the CPU with {', '.join(threads)} threads")
    for name, cells in rows.items():
        print(f"  {name:40s} " + " ".join(f"{cells.get(count, '-'):>11s}" for count in threads))


def price():
    found = {}
    for path in sorted(out.glob("price.*.json")):
        _, name, precision, numerics, _ = path.stem.split(".")
        result = load(path)
        found.setdefault((name, precision), {}).setdefault(numerics, []).append(result["median_ms"] if result else float("nan"))
    peers = load(out / "peers_models.json") or {}
    if found:
        print("model precise_ms exact_ms exact/precise | eager graph reduce-overhead")
    for (name, precision), by in sorted(found.items()):
        precise, exact = (statistics.median(by.get(numerics, [float("nan")])) for numerics in ("precise", "exact"))
        peer = peers.get(f"{name}/{precision}x1", {})
        beside = " ".join(f"{peer[how]:.3f}" if how in peer else "-" for how in ("eager", "graph", "reduce-overhead"))
        print(f"  {name} {precision}x1 {precise:.3f} {exact:.3f} {exact / precise:.2f} | {beside}")


def models():
    peers = load(out / "peers_models.json") or {}
    rows = sorted(out.glob("bench.*.json"))
    if rows:
        print("model median_ms launches compile_ms ready_ms second_ready_ms weights_ms device_ms host_us | eager graph reduce-overhead")
    for path in rows:
        _, name, precision, _ = path.name.split(".")
        r = load(path)
        if r is None:
            print(f"  {name} {precision}: failed")
            continue
        peer = peers.get(f"{name}/{precision}x1", {})
        beside = " ".join(f"{peer[k]:.3f}" if k in peer else "-" for k in ("eager", "graph", "reduce-overhead"))
        again = load(out / f"again.{name}.{precision}.json") or {}
        second = " ".join(f"{again[k]:.0f}" if k in again else "-" for k in ("ready_ms", "weights_ms", "device_ms"))
        print(f"  {name:26s} {precision} {r['median_ms']:.3f} {r['launches']} {r['compile_ms']:.0f} {r['ready_ms']:.0f} {second} {r.get('host_us', 0):.1f} | {beside}")


def gate():
    result, record = load(out / "gate.json"), load(out / "gate.record.json")
    if result is None:
        return
    if "cases" in result:  # nothing to compare with
        failed = [case["name"] for case in result["cases"] if "error" in case]
        print(f"gate: {len(result['cases'])} cases, {len(failed)} failed {' '.join(failed)}")
    else:
        count = sum(len(result[key]) for key in ("slower", "faster", "same"))
        print(f"gate: {'ok' if result['ok'] else 'NOT ok'}; {count} compared, {len(result['slower'])} slower, {len(result['faster'])} faster, "
              f"{len(result['failed'])} failed, {len(result['missing'])} only in the record, {len(result['added'])} not in it")
        for row in result["slower"] + result["faster"]:
            print(f"  {row['name']:48s} {row['before']:.3f} -> {row['now']:.3f} ({row['ratio']:.3f}; spreads {row['before_spread']:.3f} {row['now_spread']:.3f})")
        for row in result["failed"]:
            print(f"  {row['name']}: {row['error'][:160]}")
    if record is not None:
        print(f"gate record: {record['machine']}, driver {record['driver']}, copies at {record['copy_gb_per_s']:.0f} GB/s, commit {record['commit']}")


def tune():
    rows = sorted(out.glob("tune.*.json"))
    if rows:
        print("tune: measured failed seconds heuristic_us -> tuned_us | again | run heuristic_ms -> tuned_ms, ready_ms of both")
    for path in rows:
        _, name, precision, _ = path.name.split(".")
        key = f"{name}.{precision}.json"
        r, again = load(path), load(out / f"tune_again.{key}")
        before, after = load(out / f"bench_before.{key}"), load(out / f"bench_tuned.{key}")
        if r is None or again is None or before is None or after is None:
            print(f"  {name} {precision}: failed")
            continue
        faults = []
        if again["measured"] or again["failed"]:
            faults.append(f"the second run measured {again['measured']}" + ("" if r["finished"] else " (the first one's time was up)"))
        if r["tuned_us"] > r["heuristic_us"] or again["tuned_us"] > again["heuristic_us"]:
            faults.append("the tuned total is larger")
        print(f"  {name:26s} {precision} {r['measured']} {r['failed']} {r['seconds']:.0f} {r['heuristic_us']:.1f} -> {r['tuned_us']:.1f} | "
              f"{again['measured']} {again['reused']} | {before['median_ms']:.3f} -> {after['median_ms']:.3f}, "
              f"{before['ready_ms']:.0f} -> {after['ready_ms']:.0f} {'; '.join(faults)}")


def conformance():
    for path in sorted(out.glob("conformance.*.json")):
        r = load(path)
        if r is None:
            print(f"{path.stem}: failed")
            continue
        tiers = ", ".join(f"{name} {t['passed']}/{t['total']}" for name, t in r["tiers"].items())
        print(f"{path.stem}: {r['passed']} passed, {r['wrong']} wrong, {r['unsupported']} unsupported of {r['total']} ({tiers})")
        for case in r["cases"]:
            if case["status"] == "wrong":
                print(f"  {case['name']}: {case['reason'][:200]}")


def accuracy():
    r = load(out / "accuracy.json")
    if r is None:
        return
    print(f"accuracy: {sum(row['ok'] for row in r['rows'])} of {len(r['rows'])} rows within their bounds")
    for row in r["rows"]:
        if not row["ok"]:
            print(f"  {row['op']} {row['dtype']}: {row['max_ulp_on_domain']} ulp, {row['wrong']} wrong")


verify()
patterns()
cpu()
models()
gate()
price()
tune()
conformance()
accuracy()
