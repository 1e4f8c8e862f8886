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

The results of ONNX's own test cases, run by `fusec conformance` ([method](testing.md#onnxs-own-cases)).
`docs/conformance.sh` writes this page.
TEXT
echo "$origin"
cat <<'TEXT'

A case belongs to the first tier whose ops, together with those of the tiers before it, cover its model, provided that all
its types are f64, f32, f16, bf16, i8 to i64, u8 to u64 or bool. Every other case is "other". The tiers list what fusec
aims to support; the tables below show what it supports:

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
