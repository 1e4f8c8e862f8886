#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# origin.sh: the line under a table of these pages: date, commit and machine. Refuses a tree whose files, but for these pages,
# differ from the commit: its figures are nobody's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# A file that is not tracked is built too where CMake collects a folder's files.
changed=$(
  git status --porcelain --untracked-files=no -- . ':!docs'
  git status --porcelain --untracked-files=all -- cmake codegen compiler include ir runtime | grep '^??' || true
)
if [ -n "$changed" ]; then
  printf 'origin.sh: commit these first, figures carry the commit that they were measured at:\n%s\n' "$changed" >&2
  exit 1
fi
machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "Measured $(date -u +%Y-%m-%d) at commit $(git rev-parse --short=7 HEAD) on $(nproc) cores of ${machine:-an unnamed CPU}."
