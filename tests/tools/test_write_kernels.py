"""The text of the kernels for GPUs is that of their source, and computes as processors do."""

import re
import subprocess
from pathlib import Path

import pytest
import write_kernels

ROOT = Path(__file__).parents[2]


@pytest.fixture(name="text", scope="module")
def kernel_text():
    return (ROOT / write_kernels.TEXT).read_text(encoding="utf-8")


@pytest.fixture(name="nvcc", scope="module")
def compiler():
    nvcc = write_kernels.find_nvcc()
    if nvcc is None:
        pytest.skip("needs nvcc")
    return nvcc


def test_products_and_sums_stay_apart_and_subnormal_numbers_are_kept(text):
    operations = set(re.findall(r"^\s*(?:@!?%p\d+ )?([a-z0-9_.]+)\b", text, re.MULTILINE))
    floats = {
        name for name in operations if re.search(r"^(add|sub|mul|fma|mad).*\.f(16|32|64)", name)
    }
    # `.rn`: drivers may not make one operation of two either.
    assert floats == {"add.rn.f32", "add.rn.f64", "mul.rn.f32", "mul.rn.f64"}
    assert not {name for name in operations if "ftz" in name or "approx" in name}


def test_all_kernels_that_the_library_looks_for_are_there(text):
    kernels = set(re.findall(r"^\.visible \.entry (\w+)\(", text, re.MULTILINE))
    halves, floats = ["float16", "bfloat16"], ["float32", "float64"]
    expected = {f"sum_{n}_{kind}" for n in (2, 4, 8, "any") for kind in halves + floats}
    expected |= {f"scale_{kind}" for kind in halves + floats}
    expected |= {f"{what}_{kind}" for what in ("narrow", "widen") for kind in halves}
    assert kernels == expected


@pytest.mark.parametrize("access", ["ld", "st"])
def test_every_kernel_reads_and_writes_16_bytes_at_a_time(text, access):
    groups = re.compile(rf"^\s*{access}\.global[.\w]*\.(v4\.\w32|v2\.\w64)\b", re.MULTILINE)
    kernels = text.split(".visible .entry ")[1:]
    assert [kernel.split("(")[0] for kernel in kernels if not groups.search(kernel)] == []


def test_nothing_else_has_to_be_linked(text):
    assert ".extern" not in text
    assert "__nv" not in text


def test_drivers_of_cuda_12_know_the_language(text):
    (version,) = re.findall(r"^\.version (\d+)\.(\d+)$", text, re.MULTILINE)
    assert tuple(map(int, version)) <= (8, 0)
    assert re.findall(r"^\.target (\w+)$", text, re.MULTILINE) == ["sm_75"]


def test_the_text_is_that_of_the_source(nvcc, text):
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True)
    ours, theirs = (write_kernels.release_of(each) for each in (version.stdout, text))
    if ours != theirs:
        pytest.skip(f"the text was written by nvcc {theirs}, and this is {ours}")
    assert write_kernels.check(nvcc, ROOT) == ""


def test_the_text_is_valid_for_all_architectures(nvcc, text):
    if not Path(nvcc).resolve().with_name("ptxas").exists():
        pytest.skip("needs ptxas")
    write_kernels.assemble(nvcc, text)


def test_a_changed_source_is_noticed(nvcc, text, tmp_path):
    for folder in ("device", "base"):
        for path in (ROOT / write_kernels.CPP / "tnt/comm" / folder).glob("*"):
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    source = tmp_path / write_kernels.CPP / "tnt/comm/device/folding.hpp"
    before = source.read_text(encoding="utf-8")
    after = before.replace("float_of(a) + float_of(b)", "float_of(a) - float_of(b)")
    assert after != before
    source.write_text(after, encoding="utf-8")
    problem = write_kernels.check(nvcc, tmp_path)
    assert problem.endswith(f"run `{write_kernels.COMMAND}`") or "cannot be compared" in problem


def test_a_text_of_another_compiler_is_told_apart():
    assert write_kernels.release_of("// Cuda compilation tools, release 13.0, V13.0.88") == (
        "V13.0.88"
    )
    assert write_kernels.release_of("") == "unknown"
