#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_pack.sh <build folder> <archive.tar.xz>: the fusec command, its tests that want a device, and every shared library they
# need beyond glibc and the C++ runtime, in one folder that runs wherever it is unpacked.
set -euo pipefail
build=$1 archive=$2
pack=$build/gpu-pack/fusec
rm -rf "$build/gpu-pack"
mkdir -p "$pack/bin" "$pack/lib"
cmake --install "$build" --prefix "$pack" >/dev/null
for program in fusec_text_test fusec_runtime_test digits; do
  if [ -e "$build/bin/$program" ]; then
    install "$build/bin/$program" "$pack/bin/"
  fi
done
for data in tests/text samples/digits; do
  if [ -d "$data" ]; then
    mkdir -p "$pack/$data" && cp -r "$data/." "$pack/$data/"
  fi
done
find "$pack/bin" "$pack"/lib* -type f \( -perm -u+x -o -name '*.so*' \) -print0 | while IFS= read -r -d '' file; do
  ldd "$file" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*|libdnnl|libfusec[^/]*)\.so' |
  xargs -r -I{} cp -Ln {} "$pack/lib/"
find "$pack/bin" "$pack"/lib* -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
tar -C "$build/gpu-pack" -cf - fusec | xz -T0 -6 >"$archive"
size=$(stat -c %s "$archive")
if [ "$size" -gt $((50 * 1024 * 1024)) ]; then
  echo "$archive has $size bytes; the limit is 50 MiB" >&2
  exit 1
fi
