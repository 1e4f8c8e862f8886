#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# newest.sh <fusec>: the node cases of the newest ONNX by both engines. Exit code 77: `./dev test --all` has not written them.
set -euo pipefail
cases=$(echo build/deps/onnx_cases-*)
[ -e "$cases/complete" ] || exit 77
for engine in evaluator compiled; do
  "$1" conformance "$cases" --engine "$engine" --device cpu --no-cache
done
