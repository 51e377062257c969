"""The commands of a page, and what each starts on a rank."""

import os
import re
import runpy
import sys
from pathlib import Path

from run_command import ROOT

BLOCK = re.compile(r"^```(?:bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(page):
    """The commands of a page in their order, without prompts."""
    lines = "".join(BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    return [line.strip().removeprefix("$ ") for line in lines if line.strip()]


def run_script(script, arguments):
    """Run a script on this rank as Python would, from the root of the repository."""
    os.chdir(ROOT)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")
