#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every file, folder and link that a page names must exist. Words with * < > or { stand for several and are passed over.
set -euo pipefail
cd "$(dirname "$0")/.."
faults=0

fault() { echo "$1 names $2, which does not exist" >&2; faults=1; }

for page in README.md SECURITY.md docs/*.md docs/decisions/*.md; do
  folder=$(dirname "$page")
  while read -r link; do
    [ -e "$folder/${link%%#*}" ] || fault "$page" "$link"
  done < <(grep -oE '\]\([^)# ]+[^) ]*\)' "$page" | sed -e 's/^](//' -e 's/)$//' | grep -v '^https\?:' || true)
  while read -r path; do
    [ -e "$path" ] || [ -e "include/$path" ] || fault "$page" "$path"
  done < <(grep -oE '`(include|ir|compiler|codegen|runtime|tests|samples|docs|cmake|fusec)/[A-Za-z0-9_./-]+`' "$page" | tr -d '`' | sort -u || true)
done
exit $faults
