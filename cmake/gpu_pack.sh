#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [FUSEC_PEERS=folder] gpu_pack.sh <build folder> <archive.tar.xz>: one folder `fusec` that runs wherever it is unpacked: the
# commands, the tests that want a device, random graphs, every shared library they need beyond glibc and the C++ runtime,
# models, patterns, records of the speed gate, ONNX's cases, packages made here for machines with a GPU, and tests/gpu.sh, which runs it all. FUSEC_PEERS:
# more scripts that time other systems.
# gpu_pack.sh --programs <build folder> <folder>: the commands with their libraries alone, as the archive has them.
set -euo pipefail

# programs <build folder> <folder>
programs() {
  local build=$1 pack=$2 program library
  mkdir -p "$pack"/{bin,lib}
  for program in fusec fusec-compiler fusec_codegen_test fusec_runtime_test fuzz_graphs; do
    if [ -e "$build/bin/$program" ]; then
      install "$build/bin/$program" "$pack/bin/"
    fi
  done
  for program in "$pack"/bin/*; do
    ldd "$build/bin/$(basename "$program")" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
  done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' | xargs -r -I{} cp -Ln {} "$pack/lib/"
  for library in "$build"/lib/libfusec-ptx-compiler.so.*; do  # opened at run time
    [ ! -e "$library" ] || install "$library" "$pack/lib/"
  done
  find "$pack"/{bin,lib} -type f -exec strip --strip-unneeded {} + 2>/dev/null || true
  python3 tests/check_runpaths.py "$pack/bin" "$pack/lib"
}

if [ "$1" = --programs ]; then
  programs "$2" "$3"
  exit
fi
build=$1 archive=$2
pack=$build/gpu-pack/fusec
rm -rf "$build/gpu-pack"
mkdir -p "$pack"/{tests,packages,cases,gate}
cp -rL /usr/share/libonnx-testdata/data "$pack/cases/debian"
for cases in build/deps/onnx_cases-*; do
  [ ! -e "$cases/complete" ] || cp -r "$cases" "$pack/cases/newest"
done
cp -r tests/models tests/patterns tests/peers "$pack/"
for record in docs/results/*-gate-*.json; do
  [ ! -e "$record" ] || cp "$record" "$pack/gate/"
done
if [ -n "${FUSEC_PEERS:-}" ]; then
  cp "$FUSEC_PEERS"/*.py "$pack/peers/"
fi
# One small model: weights do not compress.
for model in tests/models/squeezenet1_1.onnx tests/patterns/*.onnx; do
  "$build/bin/fusec" compile "$model" --random-weights 0 -o "$pack/packages/$(basename "$model" .onnx).fsc" \
    --target cpu:x86-64-v3,cuda:sm_80,cuda:sm_90 >/dev/null
done
git describe --always --dirty --abbrev=7 --exclude "*" >"$pack/commit" 2>/dev/null || echo unknown >"$pack/commit"
cp -r tests/gpu.sh tests/gpu_table.py tests/sweep.py "$pack/tests/"
programs "$build" "$pack"
# Each program has LLVM inside; a window over all of them finds it once.
# Packages that others own or may write would be refused, so nobody's number or mode of this machine is packed.
tar -C "$build/gpu-pack" --sort=name --owner=0 --group=0 --mode=go-w -cf - fusec | xz --lzma2=preset=2,dict=384MiB >"$archive"
size=$(stat -c %s "$archive")
echo "$archive: $((size >> 20)) MiB"
if [ "$size" -gt $((50 * 1024 * 1024)) ]; then
  echo "$archive has $size bytes; the limit is 50 MiB" >&2
  exit 1
fi
