#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a report in headless Chromium: every view draws, a step can be chosen, nothing is logged as an error, and nothing is fetched.

usage: report_page.py FUSEC MODEL. Exits with 77 where there is no Chromium."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VIEWS = {"graph:0": 'id="graph"', "steps": "<tbody>", "roofline": 'aria-label="Roofline"', "gap": "measured run",
         "memory": 'aria-label="Memory over the steps"', "compile": "Stages of this compile", "changes": "What|before|Nothing differs"}


def main():
    fusec, model = sys.argv[1:]
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed (apt-get install chromium)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        page, old = Path(folder, "r.html"), Path(folder, "old.json")
        common = [fusec, "report", model, "--device", "cpu", "--cache-dir", folder]
        subprocess.run([*common, "-o", old, "--no-times"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*common, "-o", page, "--duration", "0.05", "--compare", old], check=True, stdout=subprocess.DEVNULL)
        failed = 0
        for view, expected in VIEWS.items():
            shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser", "--enable-logging=stderr",
                                    "--virtual-time-budget=2000", "--dump-dom", f"file://{page}#{view}"],
                                   capture_output=True, text=True, timeout=120)
            body = re.sub(r"<script.*?</script>", "", shown.stdout, flags=re.S)
            complaints = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
            good = re.search(expected, body) and not complaints and ("Step 0:" in body) == (":" in view)
            print(f"{view}: {'good' if good else 'not as it should be'}", *complaints)
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
