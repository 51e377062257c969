"""What changes a public interface asks for a version; what does not, asks for none."""

import check_public_interface
import pytest
from c_declarations import declarations_of
from interface_changes import is_enough, new_arguments
from packaging.version import Version
from public_names import names_of

HEADER = """
#define TNT_COMM_ABI_VERSION 2 /* of this header */
typedef enum { TNT_SUM = 0 } tnt_op;
TNT_COMM_API int32_t tnt_rank(int32_t* rank);
"""
SOURCE = """
__all__ = ["DataError", "distribute"]

class DataError(ValueError):
    pass

def distribute(dataset, rank, size=1):
    return 1
"""
VARIABLES = '[[rank]]\nname = "TNT_RANK"\nread_by = ["tnt-data"]\n'
WORD = (
    '[[setting]]\nname = "TNT_X"\ntype = "word"\nwords = ["a"]\ndefault = "a"\n'
    'read_by = ["tnt-data"]\n'
)


class Tree:
    """A made-up tree with the package tnt-data, or another one."""

    def __init__(self, root, name="tnt-data"):
        self.root, self.name = root, name
        self.folder = root / "packages" / name
        (self.folder / "src" / name.replace("-", "_")).mkdir(parents=True)
        self.tables = ""
        self.set_version("1.0.0")
        self.set_source(SOURCE)
        self.set_variables(VARIABLES + WORD)

    def set_version(self, version):
        text = f'[project]\nname = "{self.name}"\nversion = "{version}"\n{self.tables}'
        (self.folder / "pyproject.toml").write_text(text)

    def set_source(self, text, module="__init__.py"):
        path = self.folder / "src" / self.name.replace("-", "_") / module
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    def set_header(self, text):
        path = self.folder / "include/tnt/comm/tnt_comm.h"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def set_variables(self, text):
        (self.root / "environment.toml").write_text(text)


@pytest.fixture
def tree(tmp_path):
    made = Tree(tmp_path)
    assert check_public_interface.main([str(tmp_path), "--write"]) == 0
    return made


@pytest.fixture
def sentences(tmp_path, capsys):
    """A function that checks the tree, or writes its records, and returns what is said."""

    def check(*options):
        status = check_public_interface.main([str(tmp_path), *options])
        said = capsys.readouterr().out.splitlines()
        assert status == (1 if said else 0)
        return said

    return check


def test_the_records_of_this_tree_are_true(capsys):
    assert check_public_interface.main([]) == 0, capsys.readouterr().out


def test_a_tree_without_a_record_is_told(tmp_path, sentences):
    Tree(tmp_path)
    [said] = sentences()
    assert said == (
        "packages/tnt-data/public_interface.toml is missing: "
        "run `python tools/check_public_interface.py --write`"
    )


def test_what_is_not_public_may_change(tree, sentences):
    tree.set_source(SOURCE.replace("dataset,", "dataset: int,") + "\n\ndef other():\n    pass\n")
    tree.set_source("def more():\n    pass\n", "inside.py")
    assert sentences() == []


def test_a_new_name_asks_for_a_minor_version(tree, sentences):
    tree.set_source(SOURCE.replace('["', '["explain", "') + "\n\ndef explain():\n    pass\n")
    expected = (
        "tnt-data: `tnt_data.explain` is new: raise the minor version in "
        "packages/tnt-data/pyproject.toml"
    )
    assert sentences() == [expected]
    assert sentences("--write") == [expected]
    tree.set_version("1.0.1")
    assert sentences("--write") == [expected]
    tree.set_version("1.1.0")
    assert sentences() == []
    assert sentences("--write") == []
    assert sentences("--released") == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (', "distribute"]', "]", "`tnt_data.distribute` is gone"),
        (
            "(ValueError)",
            "(RuntimeError)",
            "`tnt_data.DataError` is now `class(RuntimeError)`, it was `class(ValueError)`",
        ),
        (
            "size=1",
            "size=2",
            "`tnt_data.distribute` is now `(dataset, rank, size=2)`, "
            "it was `(dataset, rank, size=1)`",
        ),
        (
            "rank, size=1",
            "size=1, rank=0",
            "`tnt_data.distribute` is now `(dataset, size=1, rank=0)`, "
            "it was `(dataset, rank, size=1)`",
        ),
    ],
)
def test_what_breaks_programs_asks_for_a_major_version(tree, sentences, before, after, said):
    assert before in SOURCE
    tree.set_source(SOURCE.replace(before, after))
    tree.set_version("1.1.0")
    [sentence] = sentences()
    assert sentence.startswith(f"tnt-data: {said}: raise the major version in packages/tnt-data/")
    assert sentences("--write") == [sentence]
    tree.set_version("2.0.0")
    assert sentences("--write") == []


MORE_NAMES = """
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["LIMIT", "Part", "Reader", "opened"]
LIMIT = 200

class Part(NamedTuple):
    first: int
    last: int = 0

class Reader:
    def __iter__(self):
        return iter(())

@contextmanager
def opened(path):
    yield
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("LIMIT = 200", "LIMIT = 2", "`LIMIT` is now `attribute = 2`"),
        ("first: int\n    last: int = 0", "last: int\n    first: int = 0", "`Part` is now"),
        ("__iter__", "_iterate", "`Reader.__iter__` is gone"),
        ("@contextmanager\n", "", "`opened` is now `(path)`"),
        ("(path)", "(path, /, more=1)", "`opened` is now"),
    ],
)
def test_what_is_no_signature_can_break_programs_as_well(tree, sentences, before, after, said):
    tree.set_source(MORE_NAMES)
    tree.set_version("2.0.0")
    assert sentences("--write") == []
    tree.set_source(MORE_NAMES.replace(before, after))
    tree.set_version("2.1.0")
    found = " ".join(sentences()).replace("tnt_data.", "")
    assert said in found
    assert "raise the major version" in found


def test_the_record_of_the_last_final_version_may_not_vanish(tree, sentences):
    tree.set_version("1.1.0rc1")
    assert sentences("--write") == []
    (tree.folder / check_public_interface.LAST_FINAL).unlink()
    with pytest.raises(SystemExit, match="is missing: take it from the last commit"):
        sentences()


def test_a_new_argument_is_named(tree, sentences):
    tree.set_source(SOURCE.replace("size=1", "size=1, *, seed=42"))
    [said] = sentences()
    assert said.startswith(
        "tnt-data: `tnt_data.distribute` has a new argument `seed`: raise the minor version"
    )


def test_of_a_new_class_its_methods_are_not_told_of(tree, sentences):
    tree.set_source(
        SOURCE.replace('["', '["Pipeline", "')
        + "\n\nclass Pipeline:\n    def read(self):\n        pass\n"
    )
    [said] = sentences()
    assert "`tnt_data.Pipeline` is new" in said


def test_after_a_candidate_the_next_one_may_change_all(tree, sentences):
    tree.set_version("2.0.0rc1")
    assert sentences("--write") == []
    tree.set_source(SOURCE.replace(', "distribute"]', "]"))
    [said] = sentences()
    assert "`tnt_data.distribute` is gone: raise the version to 2.0.0rc2 in " in said
    tree.set_version("2.0.0rc2")
    assert sentences("--write") == []


def test_a_chain_of_candidates_hides_nothing_from_the_last_version_that_was_none(tree, sentences):
    tree.set_version("1.1.0rc1")
    assert sentences("--write") == []
    tree.set_version("1.1.0rc2")
    tree.set_source(SOURCE.replace(', "distribute"]', "]"))
    assert ["is gone: raise the major version" in each for each in sentences()] == [True]
    tree.set_version("2.0.0rc1")
    assert sentences("--write") == []
    tree.set_version("2.0.0rc2")
    assert sentences("--write") == []
    tree.set_version("2.0.0")
    assert sentences("--write") == []
    records = [path.name for path in tree.folder.glob("public_interface*.toml")]
    assert records == ["public_interface.toml"]


def test_the_record_of_an_earlier_version_is_stale_when_there_is_to_be_a_release(tree, sentences):
    tree.set_version("1.0.1")
    assert sentences() == []
    [said] = sentences("--released")
    assert said == (
        "packages/tnt-data/public_interface.toml is of tnt-data 1.0.0, and the tree is 1.0.1: "
        "run `python tools/check_public_interface.py --write`"
    )
    assert sentences("--write") == []
    assert sentences("--released") == []


def test_until_a_release_all_changes_since_the_last_one_share_a_version(tree, sentences):
    tree.set_version("1.1.0")
    tree.set_source(SOURCE.replace("size=1", "size=1, *, seed=42"))
    assert sentences() == []
    tree.set_source(SOURCE.replace("size=1", "size=1, *, other=42"))
    assert sentences() == []
    tree.set_source(SOURCE.replace(", size=1", ""))
    assert ["raise the major version" in each for each in sentences()] == [True]


def test_a_version_does_not_go_back(tree, sentences):
    tree.set_version("0.9.0")
    assert sentences() == [
        "tnt-data 0.9.0 is older than 1.0.0: raise it in packages/tnt-data/pyproject.toml"
    ]


def test_extras_and_commands_count(tree, sentences):
    tree.tables = (
        '[project.optional-dependencies]\ncluster = []\n[project.scripts]\ntnt-show = "a:b"\n'
    )
    tree.set_version("1.0.0")
    assert ["is new: raise the minor version" in each for each in sentences()] == [True, True]
    tree.set_version("1.1.0")
    assert sentences("--write") == []
    tree.tables = tree.tables.replace("cluster", "hpc").replace("a:b", "a:c")
    tree.set_version("1.2.0")
    [said] = sentences()
    assert "`[cluster]` is gone: raise the major version" in said


def test_variables_and_their_words_count(tree, sentences):
    tree.set_variables(VARIABLES + WORD.replace('["a"]', '["a", "b"]'))
    assert ["`TNT_X=b` is new: raise the minor" in each for each in sentences()] == [True]
    tree.set_variables(VARIABLES + WORD.replace('default = "a"', 'default = "b"'))
    assert ["`TNT_X` is now `word, default b`" in each for each in sentences()] == [True]
    tree.set_variables("setting = []\n" + VARIABLES)
    assert ["is gone: raise the major" in each for each in sentences()] == [True, True]


@pytest.fixture
def c_tree(tmp_path):
    made = Tree(tmp_path, "tnt-comm")
    made.set_variables("rank = []\nsetting = []\n")
    made.set_header(HEADER)
    assert check_public_interface.main([str(tmp_path), "--write"]) == 0
    return made


def test_comments_and_blanks_of_the_header_may_change(c_tree, sentences):
    c_tree.set_header(
        HEADER.replace("/* of this header */", "").replace("(int32_t* ", "(\n int32_t *")
    )
    assert sentences() == []


def test_a_new_declaration_or_word_of_an_enum_leaves_the_number_of_the_header(c_tree, sentences):
    c_tree.set_header(
        HEADER.replace("= 0 }", "= 0, TNT_MAX = 1 }") + "TNT_COMM_API void tnt_end(void);\n"
    )
    assert [each.partition(" in ")[0] for each in sentences()] == [
        "tnt-comm: `TNT_MAX` is new: raise the minor version",
        "tnt-comm: `tnt_end` is new: raise the minor version",
    ]
    c_tree.set_version("1.1.0")
    assert sentences("--write") == []


@pytest.mark.parametrize("after", ["int32_t tnt_rank(int64_t* rank);", ""])
def test_a_changed_declaration_asks_for_a_higher_number_as_well(c_tree, sentences, after):
    before = "int32_t tnt_rank(int32_t* rank);"
    c_tree.set_header(HEADER.replace(f"TNT_COMM_API {before}", after and f"TNT_COMM_API {after}"))
    of_number, of_version = sentences()
    assert of_number.endswith(
        "raise TNT_COMM_ABI_VERSION in packages/tnt-comm/include/tnt/comm/tnt_comm.h"
    )
    assert ": raise the major version in packages/tnt-comm/pyproject.toml" in of_version
    c_tree.set_version("2.0.0")
    assert sentences("--write") == [of_number]
    text = HEADER.replace("VERSION 2", "VERSION 3").replace(f"TNT_COMM_API {before}", after)
    c_tree.set_header(text)
    assert sentences("--write") == []


def test_a_function_that_is_switched_off_is_gone(c_tree, sentences):
    declaration = "TNT_COMM_API int32_t tnt_rank(int32_t* rank);\n"
    c_tree.set_header(HEADER.replace(declaration, f"#if 0\n{declaration}#endif\n"))
    assert ["`tnt_rank` is gone" in each for each in sentences()] == [True, True]


def test_a_macro_with_arguments_is_a_declaration(c_tree, sentences):
    c_tree.set_header(HEADER + "#define TNT_BYTES(n) (8 * (n))\n")
    assert ["`TNT_BYTES(n)` is new" in each for each in sentences()] == [True]


def test_another_number_of_the_header_alone_is_another_interface(c_tree, sentences):
    c_tree.set_header(HEADER.replace("VERSION 2", "VERSION 3"))
    [said] = sentences()
    assert "`TNT_COMM_ABI_VERSION` is now `3`, it was `2`: raise the major version" in said


def test_declarations_are_read_in_one_form():
    header = """
    #ifndef H
    #define H
    extern "C" {
    typedef struct { const char* name; /* a; b */ uint64_t count; } tnt_spec;
    void tnt_into(void* out, void (*release)(void* owner),
                  void* owner);
    }
    #endif
    """
    assert declarations_of(header) == {
        "tnt_into": "void tnt_into(void *out, void(*release) (void *owner), void *owner)",
        "tnt_spec": "typedef struct { const char *name; uint64_t count; } tnt_spec",
    }


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("(a)", "(a, b=1)", ["b"]),
        ("(a)", "(a, b)", []),  # who calls f(1) gets an error
        ("(a, *, c=1)", "(a, b=2, *, c=1)", ["b"]),
        ("(a, *, c=1)", "(a, c=1)", []),
        ("(a, *b)", "(a, c=1, *b)", []),  # the second of those that are given is another one
        ("(a)", "(a, *, b)", []),
        ("(a)", "(a, *, b=1, **more)", ["b", "more"]),
        ("(a, **more)", "(a, b=1)", []),
        ("(a, /, b)", "(a, /, b, c=0)", ["c"]),
        ("class(A)", "class(A, B)", []),
        ("(a)", "async (a, b=1)", []),
        ("async (a)", "async (a, b=1)", ["b"]),
        ("staticmethod (a)", "(a)", []),
    ],
)
def test_an_argument_is_new_only_if_calls_stay_what_they_were(before, now, expected):
    assert new_arguments(before, now) == expected


@pytest.mark.parametrize(
    ("before", "now", "breaks", "expected"),
    [
        ("1.2.3", "1.3.0", False, True),
        ("1.2.3", "1.2.4", False, False),
        ("1.2.3", "1.3.0", True, False),
        ("1.2.3", "2.0.0rc1", True, True),
        ("0.2.0", "0.3.0", True, True),
        ("1.0.0rc1", "1.0.0rc1", False, False),
        ("1.0.0rc1", "1.0.0rc2", True, True),
        ("1.0.0rc1", "1.0.0", True, True),
    ],
)
def test_which_version_is_enough(before, now, breaks, expected):
    assert is_enough(Version(before), Version(now), breaks) is expected


def test_names_are_found_through_lazy_tables_imports_and_private_bases(tmp_path):
    package = tmp_path / "tnt_x"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING, Any\n"
        "import os\n"
        "if TYPE_CHECKING:\n"
        "    from tnt_other import Thing as Thing\n"
        "    from tnt_x.inner.model import Model as Model\n"
        "    from tnt_x import tools as tools\n"
        "    from tnt_x.tools import helper as helper\n"
    )
    (package / "inner/__init__.py").write_text("")
    (package / "inner/model.py").write_text(
        "class _Fitting:\n"
        "    def fit(self, x, /, *, y: int = 3, **more): ...\n"
        "class Model(_Fitting, dict):\n"
        "    @property\n"
        "    def size(self): ...\n"
        "    def _private(self): ...\n"
    )
    (package / "tools.py").write_text("import os\ndef helper(*x): ...\n_hidden = 1\n")
    assert names_of("tnt_x", tmp_path) == {
        "tnt_x": "module",
        "tnt_x.Model": "class(dict)",
        "tnt_x.Model.fit": "(self, x, /, *, y=3, **more)",
        "tnt_x.Model.size": "attribute",
        "tnt_x.Thing": "is tnt_other.Thing",
        "tnt_x.helper": "(*x)",
        "tnt_x.tools": "module",
        "tnt_x.tools.helper": "is tnt_x.helper",
    }
