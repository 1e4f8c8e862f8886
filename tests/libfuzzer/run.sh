#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PROGRAM SECONDS [CORPUS]: fuzzes with one target, from its seeds and regressions. What it finds is left beside the
# build as found/<target>-*; CORPUS, a folder, keeps what reached new code for the next run. FUSEC names the command that makes
# packages (default: the one of the release build); without it those seeds are left out.
set -euo pipefail
program=$(realpath "$1") seconds=$2 corpus=${3:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(dirname "$(dirname "$program")") name=$(basename "$program" _fuzzer)
fusec=${FUSEC:-build/release/bin/fusec}
seeds=$build/seeds/$name.tmp$$

# The input and the output of text tests: graphs, kernels, programs.
text_seeds() {
  local file
  for file in tests/text/*/*.fir; do
    awk -v out="$seeds/$(basename "$(dirname "$file")")_$(basename "$file" .fir)" '
      NR == 1 || /^==*$/ { part++; on = 0; next }
      /^(graph|kernel|program) / { on = 1 }
      on { print > (out "_" part) }' "$file"
  done
}

# Small packages, and the cache entries of their kernels.
compiled_seeds() {
  local work graph
  [ -x "$fusec" ] || { echo "no seeds: $fusec is not there"; return 0; }
  work=$(mktemp -d)
  for graph in tests/text/run/{broadcast,concat_views,reduce,epilogue_of_output}.fir; do
    [ -e "$graph" ] || continue
    FUSEC_CACHE_DIR=$work/cache "$fusec" compile "$graph" \
      -o "$work/$(basename "$graph" .fir).fsc" --target cpu:x86-64-v3 >/dev/null 2>&1 || true
  done
  if [ "$name" = package ]; then
    cp "$work"/*.fsc "$seeds"
  else
    find "$work/cache" -name '*.fsk' -exec cp {} "$seeds" \;
  fi
  rm -rf "$work"
}

make_seeds() {
  mkdir -p "$seeds"
  case $name in
    import)
      find tests/models -name '*.onnx' -size -64k -exec cp {} "$seeds" \;
      local file
      for file in /usr/share/libonnx-testdata/data/node/*/model.onnx; do
        [ -e "$file" ] && cp "$file" "$seeds/$(basename "$(dirname "$file")")"
      done
      ;;
    text) text_seeds ;;
    package | entry) compiled_seeds ;;
  esac
  rm -rf "${seeds%.tmp*}"
  mv "$seeds" "${seeds%.tmp*}"
}

make_seeds
seeds=${seeds%.tmp*}
mkdir -p "$build/found" "tests/libfuzzer/regressions/$name"
if [ -z "$corpus" ]; then
  corpus=$(mktemp -d)
  trap 'rm -rf "$corpus"' EXIT
fi
mkdir -p "$corpus"
# A quarantine of freed memory as large as ASan's default would count as the target's.
export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=6:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
"$program" -max_total_time="$seconds" -timeout=2 -rss_limit_mb=512 -malloc_limit_mb=256 -max_len=65536 \
  -print_final_stats=1 -verbosity="${FUSEC_FUZZ_VERBOSITY:-1}" -artifact_prefix="$build/found/$name-" \
  "$corpus" "$seeds" "tests/libfuzzer/regressions/$name"
