"""Our declarations of foreign C functions agree with the headers of those who define them."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest
import tensorflow as tf

import tnt_comm

CPP = pathlib.Path(__file__).parents[2] / "cpp"


def _compile(source: str, *include_paths: str, folder: pathlib.Path) -> str:
    compiler = shutil.which("g++")
    assert compiler, "g++ is needed, as it is to build the package"
    file = folder / "declarations.cpp"
    file.write_text(source)
    flags = [f"-I{path}" for path in (str(CPP), *include_paths)]
    result = subprocess.run(
        [compiler, "-std=c++17", "-fsyntax-only", *flags, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stderr if result.returncode else ""


TENSORFLOW = """
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#define TNT_TENSORFLOW_HEADERS_INCLUDED
#include "tnt/keras/tensorflow_c_api.h"
static_assert(TF_OK == 0 && TF_INVALID_ARGUMENT == 3 && TF_DEADLINE_EXCEEDED == 4, "");
static_assert(TF_ABORTED == 10 && TF_INTERNAL == 13 && TF_UNAVAILABLE == 14 && TF_INT32 == 3, "");
static_assert(TF_FLOAT == 1 && TF_DOUBLE == 2 && TF_UINT8 == 4 && TF_INT16 == 5, "");
static_assert(TF_INT8 == 6 && TF_STRING == 7 && TF_INT64 == 9 && TF_BOOL == 10, "");
static_assert(TF_BFLOAT16 == 14 && TF_HALF == 19 && TF_UINT32 == 22 && TF_UINT64 == 23, "");
"""

STRINGS = """
#include "tensorflow/core/platform/ctstring.h"
#include "tnt/keras/tensorflow_string.hpp"
using tnt::keras::TensorFlowString;
static_assert(sizeof(TF_TString) == sizeof(TensorFlowString), "");
static_assert(TF_TString_SmallCapacity == TensorFlowString::kMaxSmallSize, "");
static_assert(TF_TSTR_SMALL == int(TensorFlowString::kSmall), "");
static_assert(TF_TSTR_LARGE == int(TensorFlowString::kLarge), "");
static_assert(TF_TSTR_OFFSET == int(TensorFlowString::kOffset), "");
static_assert(TF_TSTR_VIEW == int(TensorFlowString::kView), "");
static_assert(offsetof(TF_TString_Small, str) == offsetof(TensorFlowString::Small, text), "");
static_assert(offsetof(TF_TString_Large, cap) == offsetof(TensorFlowString::Large, capacity), "");
static_assert(offsetof(TF_TString_Large, ptr) == offsetof(TensorFlowString::Large, text), "");
static_assert(offsetof(TF_TString_Offset, count) == offsetof(TensorFlowString::Offset, count), "");
static_assert(offsetof(TF_TString_View, ptr) == offsetof(TensorFlowString::View, text), "");
"""

COMM = """
#include <cstddef>
#include <type_traits>
#include "tnt/comm/tnt_comm.h"
#include "tnt/keras/comm_c_api.h"
static_assert(TNT_COMM_ABI_VERSION == TNT_KERAS_COMM_ABI_VERSION, "");
"""

# What comm_c_api.h leaves to tnt_comm.h where that is included: numbers, and a structure.
_, _, _REST = (CPP / "tnt/keras/comm_c_api.h").read_text().partition("ifndef TNT_COMM_ABI_VERSION")
OWN_TYPES = _REST.partition("#endif")[0]


def _comparison(own_types: str) -> str:
    """Return the source that compares numbers and structure with those of tnt_comm.h."""
    numbers = re.findall(r"(TNT_\w+)(?: =)? (\d+)", own_types)
    [fields] = re.findall(r"typedef struct \{(.*?)\} tnt_call;", own_types, re.DOTALL)
    names = re.findall(r"(\w+);", fields)
    assert len(numbers) > 15
    assert len(names) > 5
    checks = [f"{name} == {number}" for name, number in numbers]
    checks += ["sizeof(own_call) == sizeof(tnt_call)"]
    for name in names:
        checks += [f"offsetof(own_call, {name}) == offsetof(tnt_call, {name})"]
        checks += [f"std::is_same<decltype(own_call::{name}), decltype(tnt_call::{name})>::value"]
    lines = [f'static_assert({check}, "");' for check in checks]
    return "\n".join([COMM, f"struct own_call {{{fields}}};", *lines])


def test_tensorflow_declarations_agree_with_the_installed_headers(tmp_path: pathlib.Path) -> None:
    assert _compile(TENSORFLOW, tf.sysconfig.get_include(), folder=tmp_path) == ""


def test_strings_have_the_layout_of_the_installed_headers(tmp_path: pathlib.Path) -> None:
    assert _compile(STRINGS, tf.sysconfig.get_include(), folder=tmp_path) == ""


def test_comm_declarations_agree_with_the_installed_header(tmp_path: pathlib.Path) -> None:
    assert _compile(_comparison(OWN_TYPES), tnt_comm.include_path(), folder=tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("TNT_COMM_UINT8 = 8", "TNT_COMM_UINT8 = 9"),
        ("TNT_GROUP_WORLD 0", "TNT_GROUP_WORLD 1"),
        ("  int32_t root;\n", ""),
        ("uint64_t count;", "int64_t count;"),
    ],
)
def test_another_number_or_field_would_be_noticed(
    right: str, wrong: str, tmp_path: pathlib.Path
) -> None:
    assert right in OWN_TYPES
    source = _comparison(OWN_TYPES.replace(right, wrong))
    errors = _compile(source, tnt_comm.include_path(), folder=tmp_path)
    assert "static assertion failed" in errors


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (TENSORFLOW, 'extern "C" int TF_NumDims(const TF_Tensor*, int);'),
        (COMM, 'extern "C" int tnt_reducer_finish(int64_t, int64_t, void*);'),
    ],
)
def test_a_different_declaration_would_be_noticed(
    source: str, wrong: str, tmp_path: pathlib.Path
) -> None:
    paths = [tf.sysconfig.get_include(), tnt_comm.include_path()]
    assert "conflicting declaration" in _compile(source + wrong, *paths, folder=tmp_path)
