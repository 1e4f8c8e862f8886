#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conformance.sh <fusec> > docs/conformance.md: ONNX's own cases by both engines on the CPU. Needs libonnx-testdata and the newest
# cases in build/deps, which `./dev test --all` writes there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
newest=$(echo build/deps/onnx_cases-*)
suite=/usr/share/libonnx-testdata/data
origin=$(docs/origin.sh)
cat <<'TEXT'
# Conformance

ONNX's own test cases, by `fusec conformance`. This page is written by `docs/conformance.sh`.
TEXT
echo "$origin"
cat <<'TEXT'

A case is of the first tier whose ops, with those of the tiers before it, are all that its model uses, and whose types are all f64, f32,
f16, bf16, i8 to i64, u8 to u64 or bool; else it is "other". The lists are what fusec sets out to do, not what it does:

TEXT
"$1" conformance "$suite" --tiers
section() { printf '\n## %s\n\n' "$1"; }
section "Newest node cases (onnx ${newest##*-}), compiled"
"$1" conformance "$newest" --device cpu --markdown || true
section "Newest node cases, by the evaluator"
"$1" conformance "$newest" --engine evaluator --markdown --brief || true
section "ONNX 1.12 (Debian's libonnx-testdata: node, pytorch-converted, pytorch-operator, simple), compiled"
"$1" conformance "$suite" --device cpu --markdown || true
section "ONNX 1.12, by the evaluator"
"$1" conformance "$suite" --engine evaluator --markdown --brief || true
