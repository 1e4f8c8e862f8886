# SPDX-License-Identifier: Apache-2.0
"""gpu_table.py OUT: the short table of what tests/gpu.sh left in OUT."""
import json
import pathlib
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


def tune():
    for path in sorted(out.glob("tune.*.first.json")):
        _, name, precision, _, _ = path.name.split(".")
        first, second = load(path), load(out / f"tune.{name}.{precision}.second.json") or {}
        if first is None:
            print(f"  tune {name} {precision}: failed")
            continue
        print(f"  tune {name:26s} {precision} heuristic {first.get('heuristic_us', 0):.1f} us tuned {first.get('tuned_us', 0):.1f} us "
              f"measured {first['measured']} failed {first['failed']} in {first['seconds']:.1f} s; again: measured {second.get('measured')}")


verify()
tune()
patterns()
models()
