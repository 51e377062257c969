"""What programs in C and C++ see of tnt-comm: a header in plain C99, and only marked names."""

import os
import subprocess
from pathlib import Path

import tnt_comm


def test_a_c99_program_builds_links_and_runs(tmp_path: Path) -> None:
    program = tmp_path / "program"
    folder = str(Path(tnt_comm.library_path()).parent)
    subprocess.run(
        [
            *("gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"),
            *("-I", tnt_comm.include_path(), str(Path(__file__).with_name("program.c"))),
            *("-o", str(program), "-L", folder, "-ltnt_comm", f"-Wl,-rpath,{folder}"),
        ],
        check=True,
        timeout=110,
    )
    alone = {k: v for k, v in os.environ.items() if not k.startswith("TNT_")}
    done = subprocess.run([program], env=alone, timeout=110, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_header_is_valid_cpp(tmp_path: Path) -> None:
    source = tmp_path / "user.cpp"
    source.write_text('#include "tnt/comm/tnt_comm.h"\ntnt_comm_status s = TNT_COMM_OK;\n')
    command = ["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]
    subprocess.run([*command, tnt_comm.include_path(), str(source)], check=True, timeout=110)


def test_only_marked_names_leave_the_library() -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "-C", tnt_comm.library_path()],
        check=True,
        timeout=110,
        capture_output=True,
        text=True,
    ).stdout
    names = [line.split(maxsplit=2)[2] for line in listing.splitlines()]
    assert [n for n in names if n.startswith("tnt_")]
    for hidden in ("Engine", "ShmSegment", "SlotRing", "TreeReducer", "kernels"):
        assert [n for n in names if n.startswith(f"tnt::comm::{hidden}")] == []
