#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every file, folder and link that a page names exists. Words with * < > or { stand for several files and are
# skipped. Source paths in docs/results are those of an older commit: of these pages only the links are checked.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
faults=0

fault() { echo "$1 names $2, which does not exist" >&2; faults=1; }

check_links() {
  local folder link
  folder=$(dirname "$1")
  while read -r link; do
    [ -e "$folder/${link%%#*}" ] || fault "$1" "$link"
  done < <(grep -oE '\]\([^)# ]+[^) ]*\)' "$1" | sed -e 's/^](//' -e 's/)$//' | grep -v '^https\?:' || true)
}

check_paths() {
  local path
  while read -r path; do
    [ -e "$path" ] || [ -e "include/$path" ] || fault "$1" "$path"
  done < <(grep -oE '`(include|ir|compiler|codegen|runtime|tests|samples|docs|cmake|fusec)/[A-Za-z0-9_./-]+`' "$1" | tr -d '`' | sort -u || true)
}

for page in *.md docs/*.md docs/decisions/*.md samples/*.md samples/*/*.md; do
  check_links "$page"
  check_paths "$page"
done
for page in docs/results/*.md; do check_links "$page"; done
exit $faults
