#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/numerics.md, out of what `fusec accuracy --json` printed; docs/numerics.sh calls it.

    numerics.py TARGET=FILE.json ...
"""
import json
import sys

FLOATS = ("f32", "f16", "bf16", "f64")


def number(row, key):
    return f"{row['wrong']} wrong" if row["wrong"] else f"{row[key]:.3g}"


def line(op, target, rows):
    cells = [f"`{op}`", target]
    for dtype in FLOATS:
        row = rows.get(dtype)
        cells.append(number(row, "max_ulp") if row else "")
        if dtype == "f32":
            cells += [number(row, "max_ulp_on_domain"), f"{row['bound']:g}"] if row else ["", ""]
    others = {dtype: row for dtype, row in rows.items() if dtype not in FLOATS}
    wrong = [f"{dtype}: {row['wrong']} wrong" for dtype, row in others.items() if row["wrong"]]
    cells.append(", ".join(wrong) or ("exact" if others else ""))
    return "| " + " | ".join(cells) + " |"


def main():
    targets = {}
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        with open(path) as file:
            targets[name] = json.load(file)["rows"]
    if not targets:
        sys.exit(__doc__)
    print("| op | target | f32 | on its domain | bound | f16 | bf16 | f64 | integers, bool |")
    print("|---|---|---|---|---|---|---|---|---|")
    table = {}
    for target, rows in targets.items():
        for row in rows:
            table.setdefault(row["op"], {}).setdefault(target, {})[row["dtype"]] = row
    for op, by_target in table.items():
        for target, rows in by_target.items():
            print(line(op, target, rows))


main()
