#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh [part...]: checks and then measures fusec on a machine with an NVIDIA GPU. Parts, all but tune by default, in this order:
#   doctor    what was found
#   verify    models in the precisions of VERIFY, patterns as they are, by the emitters of HOW: f32 models against the CPU's
#             engine, all else against the evaluator
#   patterns  score of each pattern
#   models    fusec bench of each model
#   tune      fusec tune of each model at batch 1, then again, which must measure nothing, and fusec bench with its times
#   peers     the same under PyTorch, where python3 has it
# Logs and JSON go to ${OUT:-gpu-out}; a table is printed last. A part that fails does not stop the others.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD out=${OUT:-$root/gpu-out} fusec=$root/bin/fusec
mkdir -p "$out"
export FUSEC_CACHE_DIR=${FUSEC_CACHE_DIR:-$out/.cache}
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(doctor verify patterns models peers)
jobs=${JOBS:-6}
started=$(date +%s)
say() { printf '[%4ds] %s\n' $(($(date +%s) - started)) "$*"; }

# run <name> <seconds> <command...>: stdout to NAME.json, stderr to NAME.err, one line.
run() {
  local name=$1 limit=$2 rc=0
  shift 2
  timeout -k 5 "$limit" "$@" >"$out/$name.json" 2>"$out/$name.err" || rc=$?
  [ $rc = 0 ] || say "$name: exit $rc: $(head -c 300 "$out/$name.err" | tr '\n' ' ')"
}
# at most $jobs side by side
spawn() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  run "$@" &
}

part_doctor() {
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  "$fusec" doctor || true
}

part_verify() {
  local model name how precision against
  for model in models/*.onnx patterns/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${VERIFY:-f32 f16 bf16}; do
      [ "$precision" = f32 ] || [ "$(dirname "$model")" = models ] || continue
      against=evaluator
      [ "$precision" != f32 ] || [ "$(dirname "$model")" != models ] || against=cpu
      for how in ${HOW:-nvrtc}; do
        spawn "verify.$name.$precision.$how" 200 "$fusec" verify "$model" --random-weights 0 --device cuda:0 --reference "$against" \
          --precision "$precision" --codegen "$how" --json
      done
    done
  done
  wait
}

part_patterns() { run patterns 300 "$fusec" bench --patterns patterns --device cuda:0 --json; }

part_models() {
  local model name precision
  for model in models/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${PRECISIONS:-f32 f16}; do
      run "bench.$name.$precision" 120 "$fusec" bench "$model" --random-weights 0 --device cuda:0 --precision "$precision" \
        --batch "${BATCHES:-1}" --json
    done
  done
}

part_tune() {
  local model name precision
  for model in models/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${PRECISIONS:-f32 f16}; do
      set -- "$model" --random-weights 0 --device cuda:0 --precision "$precision" --batch 1 --tuning-db "$out/tuning.sqlite" --json
      run "bench_before.$name.$precision" 120 "$fusec" bench "$@" --strategy heuristic
      run "tune.$name.$precision" "${TUNE_SECONDS:-240}" "$fusec" tune "$@" --time-limit "${TUNE_LIMIT:-200}" ${TUNE_FLAGS:-}
      run "tune_again.$name.$precision" 60 "$fusec" tune "$@" --time-limit 50
      run "bench_tuned.$name.$precision" 120 "$fusec" bench "$@"
    done
  done
}

part_peers() {
  [ -f peers/models.py ] || return 0
  run peers 400 python3 peers/models.py "$out/peers_models.json" "${PEER_MODELS:-mobilenet_v3_large,resnet50,bert_base}" \
    "${PEER_CONFIGS:-f32x1,f16x1}" eager,graph,reduce-overhead
}

for part in "${parts[@]}"; do
  say "$part"
  "part_$part"
done
say "done"
python3 tests/gpu_table.py "$out"
