#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh [part...]: checks and then measures fusec on a machine with an NVIDIA GPU. Parts, by default those without a star:
#   doctor     what was found
#   units     *the tests that need a GPU: every scalar op and dtype, both emitters, libraries, sessions
#   verify     models in the precisions of VERIFY, patterns as they are, by the emitters of HOW, with CUDA graphs (GRAPH=off:
#              without): f32 models against the CPU's engine, all else against the evaluator
#   sanitize  *compute-sanitizer memcheck and racecheck over the patterns
#   packages   what was compiled where there was no GPU, and packages made here without it, against the models: equal bits
#   patterns   score of each pattern; DURATION: seconds that each bench of these parts measures, by default 1
#   sweep     *scores of the graphs that tests/sweep.py writes with SWEEP_FLAGS (--coarse), by the emitters of HOW; SWEEP_PARTS names
#              some of its parts; SWEEP_SECONDS: for each part, emitter and family
#   cpu       *scores of the patterns in CPU_PATTERNS (patterns) on the CPU, with each number of threads in CPU_THREADS (16 4 1), which
#              takes CPU_SECONDS (18) for each
#   models     fusec bench of each model, then of each again in a second process: ready times
#   gate      *the speed gate: all patterns, and all models in GATE_PRECISIONS (f32,f16), kept in gate.record.json and compared with
#              the record GATE, by default the newest one in gate/ of this kind of GPU; GATE=none: only kept. Under 9 minutes
#   price      what exact numerics cost: PRICE_MODELS in precise and exact, three rounds in turn
#   tune      *fusec tune of each model at batch 1, then again, which must measure nothing, and fusec bench with its times
#   advise    *fusec advise of ADVISE_MODELS at batch 1 in f32: layers are measured once, a second run must measure none; then for
#              batches 1 and 8, and from the exported database without the card
#   peers      PEER_MODELS in PEER_CONFIGS by fusec and by PyTorch in PEER_MODES, compiled in PEER_JOBS processes
#   peer_patterns*the patterns by fusec and by PyTorch: eager, compiled, and with max-autotune
#   profile   *fusec profile of PROFILE_MODELS with CUPTI and, with FUSEC_HIDE_LIBRARIES, without: the timelines, and a line for
#              each with the parts of a run, what they miss of the measured time, and what tracing costs
#   conformance*every folder of cases/, by the emitters of HOW
#   accuracy  *errors in ulp of every scalar op and dtype
#   fuzz      *GRAPHS random graphs from SEED on, by the emitters of HOW
# Logs and JSON go to ${OUT:-gpu-out}; a table is printed last. A part that fails does not stop the others.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD out=${OUT:-$root/gpu-out} fusec=$root/bin/fusec
mkdir -p "$out"
export FUSEC_CACHE_DIR=${FUSEC_CACHE_DIR:-$out/.cache}
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(doctor verify packages patterns models price peers)
commit=${COMMIT:-$(cat commit 2>/dev/null || echo unknown)}
printf '{"date": "%s", "commit": "%s", "machine": "%s"}\n' "$(date -u +%Y-%m-%d)" "$commit" \
  "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)" >"$out/origin.json"
jobs=${JOBS:-6} duration=${DURATION:-1}
started=$(date +%s)
say() { printf '[%4ds] %s\n' $(($(date +%s) - started)) "$*"; }

# run <name> <seconds> <command...>: stdout to NAME.json, stderr to NAME.err, one line.
run() {
  local name=$1 limit=$2 rc=0
  shift 2
  timeout -k 5 "$limit" "$@" >"$out/$name.json" 2>"$out/$name.err" || rc=$?
  [ $rc = 0 ] || say "$name: exit $rc: $(head -c 300 "$out/$name.err" | tr '\n' ' ')"
}
# at most $jobs side by side, or as many as JOBS says for this call
waiting() {
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$jobs}" ]; do wait -n; done
  "$@" &
}
spawn() { waiting run "$@"; }
names_of() { for file in "$@"; do basename "$file" .onnx; done; }

part_doctor() {
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  "$fusec" doctor || true
}

part_units() {
  local test
  # Of code generation only what runs on the card: the rest is compiled and run by emulation wherever there is no card.
  local -A filter=([codegen]='*Gpu*' [runtime]='*Gpu*:*Cuda*:*Nvptx*:*Cudnn*:*Cublas*')
  for test in codegen runtime; do
    [ -x "bin/fusec_${test}_test" ] || continue
    # One test ends the process's context for good: it comes alone, behind the others.
    {
      timeout -k 5 300 "bin/fusec_${test}_test" --gtest_filter="${filter[$test]}-*EndsTheSession" --gtest_brief=1 &&
        timeout -k 5 60 "bin/fusec_${test}_test" --gtest_filter='*EndsTheSession' --gtest_brief=1
    } >"$out/units.$test.log" 2>&1 || say "units $test: exit $?"
    say "units $test: $(grep -E '^\[  (PASSED|FAILED|SKIPPED) ' "$out/units.$test.log" | tr '\n' ' ')"
  done
}

part_verify() {
  local model name how precision against graph=()
  [ "${GRAPH:-on}" = on ] || graph=(--no-cuda-graph)
  for model in models/*.onnx patterns/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${VERIFY:-f32 f16 bf16}; do
      [ "$precision" = f32 ] || [ "$(dirname "$model")" = models ] || continue
      against=evaluator
      [ "$precision" != f32 ] || [ "$(dirname "$model")" != models ] || against=cpu
      for how in ${HOW:-llvm}; do
        spawn "verify.$name.$precision.$how.${GRAPH:-on}" 200 "$fusec" verify "$model" --random-weights 0 --device cuda:0 \
          --reference "$against" --precision "$precision" --codegen "$how" "${graph[@]}" --json
      done
    done
  done
  wait
}

# sanitize_one <pattern> <tool>: one line
sanitize_one() {
  local log=$out/sanitize.$1.$2.log
  timeout -k 5 "${SANITIZE_LIMIT:-100}" compute-sanitizer --tool "$2" "$fusec" run "patterns/$1.onnx" --device cuda:0 --no-cuda-graph >"$log" 2>&1
  echo "$1 $2: $(grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$log" || echo "no summary, exit $?")"
}
part_sanitize() {
  command -v compute-sanitizer >/dev/null || { say "no compute-sanitizer here"; return 0; }
  local name tool
  "$fusec" bench --patterns patterns --device cuda:0 --runs 1 >/dev/null 2>&1  # fills the kernel cache
  for name in $(names_of patterns/*.onnx); do
    for tool in memcheck racecheck; do
      waiting sanitize_one "$name" "$tool" >>"$out/sanitize.txt"
    done
  done
  wait
  sort "$out/sanitize.txt"
}

# same_outputs <label> <package> <model> <device>: equal bits?
same_outputs() {
  local a=$out/packages/$1.package b=$out/packages/$1.model
  "$fusec" run "$2" --device "$4" --output-dir "$a" >/dev/null 2>"$out/packages/$1.err" &&
    "$fusec" run "$3" --random-weights 0 --device "$4" ${5:-} --output-dir "$b" >/dev/null 2>>"$out/packages/$1.err" && diff -r "$a" "$b" >/dev/null &&
    echo "$1: equal" || echo "$1: NOT equal $(head -c 200 "$out/packages/$1.err" | tr '\n' ' ')"
  rm -rf "$a" "$b"
}
# package_made_here <model>: without a look at the GPU
package_made_here() {
  local name package
  name=$(basename "$1" .onnx) package=$out/packages/$(basename "$1" .onnx).fsc
  CUDA_VISIBLE_DEVICES='' "$fusec" compile "$1" --random-weights 0 --no-cache -o "$package" --target cuda:sm_90,cpu:x86-64-v3 \
    >/dev/null 2>"$out/packages/$name.err" || say "$name: $(cat "$out/packages/$name.err")"
  same_outputs "$name.made_here.gpu" "$package" "$1" cuda:0
  same_outputs "$name.made_here.cpu" "$package" "$1" cpu "--target x86-64-v3"
  rm -f "$package"
}
part_packages() {
  local package name model
  mkdir -p "$out/packages"
  for package in packages/*.fsc; do
    [ -f "$package" ] || continue
    name=$(basename "$package" .fsc)
    model=models/$name.onnx
    [ -f "$model" ] || model=patterns/$name.onnx
    waiting same_outputs "$name.gpu" "$package" "$model" cuda:0
    waiting same_outputs "$name.cpu" "$package" "$model" cpu "--target x86-64-v3"
  done
  wait
  for model in models/*.onnx; do waiting package_made_here "$model"; done
  wait
}

part_patterns() { run patterns 300 "$fusec" bench --patterns patterns --device cuda:0 --duration "$duration" --json; }

part_cpu() {
  local threads seconds=${CPU_SECONDS:-18}
  for threads in ${CPU_THREADS:-16 4 1}; do
    run "cpu.$threads" $((seconds + 10)) "$fusec" bench --patterns "${CPU_PATTERNS:-patterns}" --device cpu --threads "$threads" \
      --duration "${CPU_DURATION:-0.3}" --warmup 1 --time-limit "$seconds" --json
    say "cpu: $threads threads"
  done
}

# compile_for_sweep <emitter> <graph>: into the kernel cache; no look at the GPU, whose start takes longer than the compile
compile_for_sweep() {
  "$fusec" compile "$2" --target cuda:sm_90 --codegen "$1" -o "$2.$1.fsc" >/dev/null 2>>"$out/sweep.compile.err" || true
  rm -f "$2.$1.fsc"
}
part_sweep() {
  local how part graph family graphs=$out/sweep
  for part in ${SWEEP_PARTS:-rows odd groups sums perms}; do
    # shellcheck disable=SC2086
    python3 tests/sweep.py write "$graphs/$part" --parts "$part" --by-family ${SWEEP_FLAGS---coarse} >>"$out/sweep.log"
    for how in ${HOW:-llvm}; do
      for graph in "$graphs/$part"/*/*.fir; do JOBS=$(nproc) waiting compile_for_sweep "$how" "$graph"; done
      wait
      for family in "$graphs/$part"/*; do
        # shellcheck disable=SC2046
        run "sweep.$part.$(basename "$family").$how" "${SWEEP_SECONDS:-60}" "$fusec" bench --patterns "$family" --device cuda:0 --codegen "$how" \
          --duration "${SWEEP_DURATION:-0.04}" --json $(cat "$family/shapes" 2>/dev/null)
      done
      say "sweep $part $how"
    done
  done
  python3 tests/sweep.py table "$out"/sweep.*.json | tee "$out/sweep.txt"
}

part_models() {
  local model name precision
  for model in models/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${PRECISIONS:-f32 f16}; do
      run "bench.$name.$precision" 120 "$fusec" bench "$model" --random-weights 0 --device cuda:0 --precision "$precision" \
        --batch "${BATCHES:-1}" --duration "$duration" --json
      run "again.$name.$precision" 120 "$fusec" bench "$model" --random-weights 0 --device cuda:0 --precision "$precision" --runs 5 --json
    done
  done
}

# gate_record: the newest record of a GPU of this name, if there is one
gate_record() {
  local name
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
  { grep -lF "\"machine\": \"$name, " gate/*.json 2>/dev/null || true; } | sort | tail -n 1
}
part_gate() {
  local record=${GATE:-$(gate_record)}
  local flags=(--patterns patterns --models models --precision "${GATE_PRECISIONS:-f32,f16}" --device cuda:0 --duration "$duration")
  [ "$record" != none ] || record=
  say "gate: ${record:-no record} to compare with"
  run gate 540 "$fusec" bench "${flags[@]}" --save "$out/gate.record.json" --commit "$commit" --json ${record:+--against "$record"}
  say "gate: $(tail -n 1 "$out/gate.err")"
}

part_price() {
  local name precision numerics round
  for name in ${PRICE_MODELS:-resnet50 mobilenet_v3_large}; do
    for precision in ${PRECISIONS:-f32 f16}; do
      for round in 1 2 3; do
        for numerics in precise exact; do
          run "price.$name.$precision.$numerics.$round" 120 "$fusec" bench "models/$name.onnx" --random-weights 1 --device cuda:0 \
            --precision "$precision" --numerics "$numerics" --duration "$duration" --json
        done
      done
    done
  done
}

part_tune() {
  local model name precision
  for model in models/*.onnx; do
    name=$(basename "$model" .onnx)
    for precision in ${PRECISIONS:-f32 f16}; do
      set -- "$model" --random-weights 0 --device cuda:0 --precision "$precision" --batch 1 --tuning-db "$out/tuning.sqlite" --json
      run "bench_before.$name.$precision" 120 "$fusec" bench "$@" --duration "$duration" --strategy heuristic
      run "tune.$name.$precision" "${TUNE_SECONDS:-240}" "$fusec" tune "$@" --time-limit "${TUNE_LIMIT:-200}" ${TUNE_FLAGS:-}
      run "tune_again.$name.$precision" 60 "$fusec" tune "$@" --time-limit 50
      run "bench_tuned.$name.$precision" 120 "$fusec" bench "$@" --duration "$duration"
    done
  done
}

part_advise() {
  local name models=${ADVISE_MODELS:-mobilenet_v3_large,resnet50,bert_base}
  for name in ${models//,/ }; do
    set -- "models/$name.onnx" --random-weights 0 --device cuda:0 --tuning-db "$out/advise.sqlite" --json --duration "$duration"
    run "advise.$name" "${ADVISE_SECONDS:-280}" "$fusec" advise "$@" --measure --quick
    run "advise_again.$name" 120 "$fusec" advise "$@" --measure --quick --no-check
    grep -q '^layers: 0 ways measured' "$out/advise_again.$name.err" || say "advise $name: the second run measured again"
    run "advise_batches.$name" "${ADVISE_SECONDS:-280}" "$fusec" advise "$@" --measure --quick --no-check --batch 1,8
    run "advise_elsewhere.$name" 60 "$fusec" advise "models/$name.onnx" --random-weights 0 --json --database "$out/advise.sqlite" \
      --target "$(sed -n 's/^ *"target": "\(.*\)",$/\1/p' "$out/advise.$name.json" | head -n 1)"
    python3 - "$out" "$name" <<'PY' || say "advise $name: the parts do not add up"
import json, sys
out, name = sys.argv[1:]
for kind in ("advise", "advise_again", "advise_batches"):
    for row in json.load(open(f"{out}/{kind}.{name}.json"))["batches"]:
        total = row["bound_us"] + sum(row["parts"].values())
        assert abs(total - row["measured_us"]) < 1e-6 * row["measured_us"], (kind, total, row["measured_us"])
        parts = ", ".join(f"{part} {us:.1f}" for part, us in row["parts"].items())
        print(f"{kind} {name} {row.get('symbols')}: measured {row['measured_us']:.1f} us, bound {row['bound_us']:.1f}, "
              f"fusion-aware {row['fusion_bound_us']:.1f}; {parts}")
PY
  done
}

part_peers() {
  local name cell models=${PEER_MODELS:-mobilenet_v3_large,resnet50,bert_base,efficientnet_b0,vit_b_16,gpt2} cells=${PEER_CONFIGS:-f32x1,f16x1,f16x64}
  mkdir -p "$out/beside"
  for name in ${models//,/ }; do
    for cell in ${cells//,/ }; do
      timeout -k 5 120 "$fusec" bench "models/$name.onnx" --random-weights 0 --device cuda:0 --precision "${cell%x*}" --batch "${cell#*x}" \
        --duration "$duration" --json >"$out/beside/$name.$cell.json" 2>"$out/beside/$name.$cell.err" || say "peers: fusec bench $name $cell: exit $?"
    done
  done
  timeout -k 5 "${PEER_SECONDS:-500}" python3 peers/torch_models.py "$out/peers_models.json" --models "$models" --cells "$cells" \
    --modes "${PEER_MODES:-eager,graph,reduce-overhead}" --jobs "${PEER_JOBS:-4}" --fusec "$out/beside" 2>"$out/peers.err" | tee "$out/peers.txt"
}

part_peer_patterns() {
  [ -e "$out/patterns.json" ] || part_patterns
  timeout -k 5 "${PEER_SECONDS:-500}" python3 peers/torch_patterns.py "$out/peers_patterns.json" --fusec "$out/patterns.json" 2>"$out/peer_patterns.err" |
    tee "$out/peer_patterns.txt"
}

part_profile() {
  local model how hide
  for model in ${PROFILE_MODELS:-resnet50 bert_base gpt2}; do
    for how in cupti events; do
      hide=
      [ "$how" = cupti ] || hide=cupti
      FUSEC_HIDE_LIBRARIES=$hide run "profile.$model.$how" 120 "$fusec" profile "models/$model.onnx" --random-weights 0 --device cuda:0 \
        --trace "$out/profile.$model.$how.pftrace" --json
      python3 - "$out/profile.$model.$how.json" "$how" <<'EOF' || say "profile $model $how: not as expected"
import json, sys
p = json.load(open(sys.argv[1]))
parts = p["sum_us"] + p["copies_us"] + p["gaps_us"] + p["host_us"]
print(f"{p['source']}: launches {p['sum_us']:.1f} + copies {p['copies_us']:.1f} + gaps {p['gaps_us']:.1f} + host {p['host_us']:.1f} = {parts:.1f} us, "
      f"measured {p['measured_us']:.1f} ({100 * (parts / p['measured_us'] - 1):+.1f}%), traced {p['slow_down']:.2f} times as long; {p['notes']}")
sys.exit(p["source"] != sys.argv[2] or not all(launch["us"] > 0 and launch["registers"] > 0 for launch in p["launches"] if launch["kind"] == "generated"))
EOF
    done
  done
}

part_conformance() {
  local folder how
  for folder in cases/*; do
    for how in ${HOW:-llvm}; do
      run "conformance.$(basename "$folder").$how" 300 "$fusec" conformance "$folder" --device cuda:0 --codegen "$how" --jobs 14 --json
    done
  done
}

part_accuracy() { run accuracy 200 "$fusec" accuracy --device cuda:0 --json; }

part_fuzz() {
  local how
  for how in ${HOW:-llvm}; do
    timeout -k 5 "${FUZZ_LIMIT:-400}" bin/fuzz_graphs --device cuda:0 --codegen "$how" --count "${GRAPHS:-2000}" --seed "${SEED:-1}" --jobs 16 \
      >"$out/fuzz.$how.log" 2>&1 || say "fuzz $how: exit $?"
    say "fuzz $how: $(tail -n 1 "$out/fuzz.$how.log")"
  done
}

for part in "${parts[@]}"; do
  say "$part"
  "part_$part"
done
say "done"
python3 tests/gpu_table.py "$out"
