#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# newest.sh <fusec>: the node cases of the newest ONNX by both engines, which must give the counts below. Exit code 77:
# `./dev test --all` has not written the cases.
set -euo pipefail

# Of onnx 1.23.2, as docs/conformance.md has them.
passed=1476 wrong=0 unsupported=408

cases=$(echo build/deps/onnx_cases-*)
[ -e "$cases/complete" ] || exit 77
result=$(mktemp)
trap 'rm -f "$result"' EXIT
for engine in evaluator compiled; do
  "$1" conformance "$cases" --engine "$engine" --device cpu --no-cache --json >"$result" || true # a wrong case
  python3 - "$result" "$engine" "$passed" "$wrong" "$unsupported" <<'PYTHON'
import json
import sys

path, engine, *expected = sys.argv[1:]
with open(path) as file:
    result = json.load(file)
counts = {key: result[key] for key in ("passed", "wrong", "unsupported")}
expected = dict(zip(counts, map(int, expected)))
print(f"{engine}: {', '.join(f'{n} {key}' for key, n in counts.items())}")
for case in result["cases"]:
    if case["status"] == "wrong":
        print(f"wrong: {case['name']}: {case['reason']}")
if counts == expected:
    sys.exit(0)
print(f"expected {', '.join(f'{n} {key}' for key, n in expected.items())}.", end=" ")
if sum(counts.values()) == sum(expected.values()) and counts["wrong"] == 0 and counts["passed"] > expected["passed"]:
    print("More pass than before: write the new counts into tests/conformance/newest.sh and run docs/conformance.sh.")
else:
    print("Cases are lost: `fusec conformance` lists them, docs/conformance.md has the reasons of those that were unsupported.")
sys.exit(1)
PYTHON
done
