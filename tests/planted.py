# SPDX-License-Identifier: Apache-2.0
"""Tries a check of source trees on made-up ones: without a fault, and with one fault at a time."""
import tempfile
from pathlib import Path


def count_mistakes(clean, planted, find):
    """Prints each mistake of `find`, a function from the folder of a tree to its faults, and returns how many there are.

    clean: {path: text} of a tree without fault. planted: (path, line, expected); the line, put behind the text of the file, makes a fault
    whose report has the expected text in it.
    """
    mistakes = 0
    with tempfile.TemporaryDirectory() as root:

        def write(path, text):
            target = Path(root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text + "\n")

        for path, text in clean.items():
            write(path, text)
        for fault in find(root):
            mistakes += 1
            print(f"reported in a clean tree: {fault}")
        for path, line, expected in planted:
            write(path, clean.get(path, "") + "\n" + line)
            if not any(expected in fault for fault in find(root)):
                mistakes += 1
                print(f"not found: {line or 'the file'} in {path}, expected '{expected}'")
            if path in clean:
                write(path, clean[path])
            else:
                Path(root, path).unlink()
    print(f"{len(planted)} planted faults, {mistakes} mistakes")
    return mistakes
