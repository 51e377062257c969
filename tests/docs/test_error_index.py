"""The index has the names at the ends of messages, of all errors and warnings, and no others."""

import ast
import inspect
import re
from pathlib import Path

import tarantella as tnt
import tnt_comm
import tnt_comm.testing
import tnt_data
from tnt_comm.start.authentication import AuthenticationError
from tnt_keras.calls.errors import of_other_rank
from tnt_keras.partition import PartitionError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/errors.md"
PUBLIC = (tnt, tnt_comm, tnt_comm.testing, tnt_data)
SOURCES = {
    str(path.relative_to(ROOT / "packages")): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.glob("packages/*/src/**/*.py"))
}
NAME = re.compile(r" \[([a-z0-9]+(?:-[a-z0-9]+)*)\]$")

# What is logged there is built in the functions below.
LOGS_OF_BUILT_TEXTS = {
    "tnt-keras/src/tnt_keras/process/framework.py",
    "tnt-launch/src/tnt_launch/planning/plan.py",
    "tnt-launch/src/tnt_launch/planning/settings.py",
}
BUILDERS = {
    "tnt-comm/src/tnt_comm/start/place.py": {"advice"},
    "tnt-keras/src/tnt_keras/process/direct_start.py": {"_take_gpu", "_unknown_hosts"},
    "tnt-keras/src/tnt_keras/process/variables.py": {"warnings_of_unknown"},
    "tnt-launch/src/tnt_launch/planning/binding.py": {"_pin"},
    "tnt-launch/src/tnt_launch/planning/grammar.py": {"warnings_of_unknown"},
    "tnt-launch/src/tnt_launch/planning/lanes.py": {"warning_of_unequal_hosts"},
    "tnt-launch/src/tnt_launch/planning/number_of_ranks.py": {
        "choose_ranks",
        "ranks_of_hosts",
        "_uneven",
    },
    "tnt-launch/src/tnt_launch/planning/scheduler_job.py": {"_warnings_inside_a_rank"},
    "tnt-launch/src/tnt_launch/planning/visible_gpus.py": {"warnings_of_gpus", "_shown"},
}
WORDS_OF_A_WARNING = 12  # parts of one, and notes, are shorter


def entries():
    """The sections of the page by their headings."""
    parts = re.split(r"^### (\S+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def public_errors():
    """The error classes that programs can catch."""
    objects = [getattr(module, name) for module in PUBLIC for name in dir(module)]
    classes = {one for one in objects if inspect.isclass(one) and issubclass(one, Exception)}
    return {one for one in classes if one.__module__.startswith(("tnt_", "tarantella"))}


def text_of(node):
    """A text of the sources, with `{}` for each value in it; None for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            getattr(part, "value", "{}") if text_of(part) else "{}" for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def logged():
    """The file and the text of each warning that Python code logs."""
    for file, tree in SOURCES.items():
        for node in ast.walk(tree):
            called = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if called in ("warning", "warn") and node.args:
                yield file, text_of(node.args[0])


def built():
    """The file and the text of each warning that one of the builders returns."""
    for file, names in BUILDERS.items():
        functions = {one.name: one for one in ast.walk(SOURCES[file]) if hasattr(one, "returns")}
        for name in names:
            texts = list(texts_in(functions[name].body[1:]))  # behind the docstring
            assert texts, f"{name} of {file} builds no warning"
            yield from ((file, text) for text in texts)


def texts_in(nodes):
    """The long texts below nodes, except those of exceptions."""
    for node in nodes:
        text = text_of(node)
        if text is not None and len(text.split()) >= WORDS_OF_A_WARNING:
            yield text
        elif not isinstance(node, ast.Raise):
            yield from texts_in(ast.iter_child_nodes(node))


def logged_by_cpp():
    """The file and the last text of each warning that C++ code logs."""
    for path in sorted(ROOT.glob("packages/*/cpp/tnt/**/*.[hc]pp")):
        code = path.read_text(encoding="utf-8")
        for call in re.findall(r"(?<!void )\blog_warning\((.*?)\);", code, re.DOTALL):
            yield str(path.relative_to(ROOT)), call.rpartition("\n")[2].strip().removesuffix('"')


def warnings():
    """The file and the text of each warning."""
    texts = [(file, text) for file, text in logged() if text is not None]
    return [*texts, *built(), *logged_by_cpp()]


def symbols():
    """The symbols of the error classes in the sources."""
    assignment = re.compile(r'^    _symbol(?:: ClassVar\[str\])? = "(.*)"$', re.MULTILINE)
    for file in SOURCES:
        yield from assignment.findall((ROOT / "packages" / file).read_text(encoding="utf-8"))


def test_every_warning_ends_with_a_name():
    assert [each for each in warnings() if not NAME.search(each[1])] == []


def test_only_texts_of_the_builders_are_logged_from_elsewhere():
    assert {file for file, text in logged() if text is None} == LOGS_OF_BUILT_TEXTS


def test_the_example_of_a_warning_of_python_has_its_words():
    examples = {name: " ".join(text.split()) for name, text in entries().items()}
    of_cpp = {NAME.search(text)[1] for _, text in logged_by_cpp()}
    shown: dict[str, bool] = {}
    for _, text in (each for each in warnings() if each[0] in SOURCES):
        name = NAME.search(text)[1]
        words = map(re.escape, re.split(r"%[-.\w]*?[sdgr]|\{\}", " ".join(text.split())))
        shown[name] = shown.get(name, False) or bool(re.search(".*".join(words), examples[name]))
    assert {name for name, is_shown in shown.items() if not is_shown} <= of_cpp


def test_every_error_ends_its_message_with_its_name_once():
    for kind in public_errors() | {AuthenticationError, PartitionError}:
        arguments = ([],) if kind is tnt_comm.testing.RanksFailed else ()
        error = kind(*arguments, f"quoted [{kind._symbol}] text")
        assert str(error).endswith(f" [{kind._symbol}]")
        assert arguments or str(error).count(kind._symbol) == 1


def test_an_error_of_another_rank_ends_with_its_own_name_whatever_its_class():
    for kind in (tnt_comm.PeerLostError, tnt_data.DataError, OSError):
        assert str(of_other_rank(kind, 1, "gone")) == "gone [other-rank-failed]"


def test_the_index_has_every_name_and_no_other():
    names = {NAME.search(text)[1] for _, text in warnings()}
    assert {*entries()} == names | {*symbols()}


def test_every_class_that_programs_can_catch_is_in_the_entry_of_its_name():
    of_names = entries()
    assert {"PeerLostError", "BatchSizeError", "LaunchError"} <= {
        c.__name__ for c in public_errors()
    }
    for kind in public_errors():
        assert f"`{kind.__name__}`" in of_names[kind._symbol].partition("```")[0]


def test_every_entry_has_an_example_with_its_name_and_a_remedy():
    for name, text in entries().items():
        assert "**Remedy**: " in text, name
        assert f"[{name}]" in text.split("```")[1], name
