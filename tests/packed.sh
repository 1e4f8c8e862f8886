#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packed.sh <build folder>: the programs as cmake/gpu_pack.sh packs them start in a folder whose libraries would be code of
# another; gpu_pack.sh itself checks where they look for libraries.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake/gpu_pack.sh --programs "$1" "$folder/fusec"
mkdir "$folder/elsewhere"
for library in "$folder"/fusec/lib/*; do
  echo "not a library" >"$folder/elsewhere/$(basename "$library")"
done
cd "$folder/elsewhere"
"$folder/fusec/bin/fusec" --version
"$folder/fusec/bin/fusec-compiler" ops >/dev/null
# What is opened at run time is the packed one.
if [ -e "$build"/lib/libfusec-ptx-compiler.so ]; then
  "$folder/fusec/bin/fusec" doctor --json | grep -F "$folder/fusec/"
fi
