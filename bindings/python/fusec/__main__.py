# SPDX-License-Identifier: Apache-2.0
"""python -m fusec, and the script fusec: become the fusec command."""
import os
import shutil
import sys


def find_tool():
    """The command: of the build whose libraries FUSEC_LIBRARY names, else the package's, else one on PATH; None if there is none."""
    folders = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")]
    named = os.environ.get("FUSEC_LIBRARY")
    if named:
        libraries = os.path.abspath(named if os.path.isdir(named) else os.path.dirname(named))
        folders.insert(0, os.path.join(os.path.dirname(libraries), "bin"))
    for folder in folders:
        tool = os.path.join(folder, "fusec")
        if os.access(tool, os.X_OK):
            return tool
    tool = shutil.which("fusec")
    return None if tool is None or os.path.samefile(tool, sys.argv[0]) else tool  # the script that came here is no command


def main():
    tool = find_tool()
    if tool is None:
        sys.exit("fusec: the command was found neither in the Python package nor as fusec on PATH; install the wheel fusec, or build it by ./dev build "
                 "and add build/release/bin to PATH")
    os.execv(tool, [tool, *sys.argv[1:]])


if __name__ == "__main__":
    main()
