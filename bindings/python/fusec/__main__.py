# SPDX-License-Identifier: Apache-2.0
"""python -m fusec: becomes the fusec command."""
import os
import shutil
import sys


def main():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "fusec")
    tool = beside if os.access(beside, os.X_OK) else shutil.which("fusec")
    if tool is None:
        sys.exit(f"python -m fusec: the command was found neither as {beside} nor as fusec on PATH; build it by ./dev build and add "
                 "build/release/bin to PATH")
    os.execv(tool, [tool, *sys.argv[1:]])


main()
