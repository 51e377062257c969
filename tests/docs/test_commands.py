"""Every command of README.md, the tutorials and the how-to pages is run, or mapped by name below.

A mapped command would set up an environment, which is what the tests run in already: instead of
running it, its mapping proves that it would bring what this environment has. A command that is
neither run nor mapped does not exist: blocks are taken from the pages as they are.
"""

import argparse
import re
import shlex
import sys
from importlib.metadata import version

import keras  # noqa: F401  so that ranks are forks of a process that has imported TensorFlow
import pytest
from cases import cases
from packaging.requirements import Requirement
from page_commands import commands_of, run_script
from rank_pools import ENVIRONMENT
from run_command import ROOT, run_command, run_once

from tnt_comm.testing import run_ranks
from tnt_launch.planning.options import make_parser, make_verify_parser
from tnt_launch.planning.other_words import advice_for_other_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/tutorials/*.md")),
    *sorted(ROOT.glob("docs/howto/*.md")),
]
OF_SCHEDULERS = {"-K", "-pe", "--cpus-per-task", "--gpus-per-task", "--kill-on-bad-exit"}
NOX = re.compile(r"python3 -m pip install .*--target \.bootstrap nox && PYTHONPATH=.* -s (\w+)")


def read_commands():
    """Commands, each with the pages it stands on."""
    commands = {}
    for page in PAGES:
        for command in commands_of(page):
            commands.setdefault(command, []).append(page.name)
    return commands


COMMANDS = read_commands()
SESSIONS = [command for command in COMMANDS if NOX.fullmatch(command)]
INSTALLATIONS = [command for command in COMMANDS if command.startswith("pip install ")]
PROGRAMS = [command for command in COMMANDS if command not in SESSIONS + INSTALLATIONS]


ON_TWO_RANKS = re.compile(r"(tarantella -n 2) -- (models/(?:transformer|image_class).*)")
TRAINERS = [command for command in PROGRAMS if ON_TWO_RANKS.fullmatch(command)]
OF_TUTORIALS = ("examples/tutorials", "logs/")
ON_ONE = ("python models/lenet5/train.py", "python models/lenet5/train_serial.py")


def is_variant(command):
    """Whether a command trains once more with another option, or is run by forks.

    Options have tests of their own. The commands of the README are all run. Forks run those of
    trainers, below, and those of the tutorials' scripts, in `test_tutorials.py`.
    """
    is_of_readme = "README.md" in COMMANDS[command]
    trains_again = "train.py --" in command or "draw_curves.py" in command
    in_forks = command in TRAINERS or any(place in command for place in OF_TUTORIALS)
    return not is_of_readme and (trains_again or in_forks)


def for_two_epochs(command):
    """The command; that of one process, whose two epochs are compared with others, ends then."""
    return f"{command} --epochs 2" if command in ON_ONE else command


@cases("command", [each for each in PROGRAMS if not is_variant(each)], thorough=PROGRAMS)
def test_a_command_of_the_documentation_succeeds(command):
    finished = run_once(for_two_epochs(command))
    where = ", ".join(COMMANDS[command])
    assert finished.status == 0, f"on {where}:\n{finished.output}\n{finished.messages}"


@pytest.mark.parametrize("command", TRAINERS)
def test_a_trainer_of_the_documentation_takes_its_flags_on_ranks(command, preloaded):
    """In forks; the launcher starts these commands in the long tail, and plans them here."""
    launcher, program = ON_TWO_RANKS.fullmatch(command).groups()
    assert run_command(f"{launcher} --dry-run -- {program}").status == 0
    script, *arguments = shlex.split(program)
    run_ranks(run_script, 2, script, arguments, env=ENVIRONMENT, preloaded=preloaded)


def installed_by(command):
    """What a command of pip installs: its arguments without options."""
    pip = argparse.ArgumentParser()
    pip.add_argument("--find-links")
    pip.add_argument("--no-deps", action="store_true")
    pip.add_argument("--no-index", action="store_true")
    pip.add_argument("--requirement")  # which build_wheels.py writes
    pip.add_argument("installed", nargs="*")
    return pip.parse_args(shlex.split(command)[2:]).installed


@pytest.mark.parametrize("command", INSTALLATIONS)
def test_an_installation_of_the_documentation_brings_what_is_installed_here(command):
    for argument in installed_by(command):
        if argument.startswith("./"):
            path, _, extra = argument.removesuffix("]").partition("[")
            file = ROOT / path / "pyproject.toml"
            project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
            assert version(project["name"]) == project["version"]
            assert not extra or extra in project["optional-dependencies"]
        else:
            requirement = Requirement(argument)
            assert requirement.specifier.contains(version(requirement.name))


OWN = [path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")]


FROM_DIST = [each for each in INSTALLATIONS if "dist" in each.split()]
WITHOUT_INDEX = (
    "pip install --no-index --no-deps --find-links dist --requirement dist/constraints.txt"
)


def test_packages_of_a_release_are_installed_without_the_index_before_what_they_need():
    pages = {page for command in FROM_DIST for page in COMMANDS[command]}
    assert {"README.md", "quick_start.md", "use_ucx.md"} <= pages == {*COMMANDS[WITHOUT_INDEX]}


@pytest.mark.parametrize("command", [each for each in FROM_DIST if each != WITHOUT_INDEX])
def test_packages_of_a_release_are_installed_in_exactly_their_versions(command):
    named = [Requirement(argument) for argument in installed_by(command)]
    assert {each.name for each in named} <= {*OWN}
    assert [str(each.specifier) for each in named] == [f"=={version(each.name)}" for each in named]


def test_no_page_lets_pip_look_for_our_packages_on_the_index_alone():
    """They are not there, and somebody else's may be. How they come there is said on one page."""
    names = "|".join(OWN)
    bare = re.compile(rf"pip install(?!.*--find-links)[^`\n]* \"?(?:{names})(?![\w/-])")
    pages = {page for pattern in EVERYWHERE for page in ROOT.glob(pattern)}
    found = {(page.name, text) for page in pages for text in bare.findall(page.read_text("utf-8"))}
    told = {"CHANGELOG.md", "make_a_release.md"}
    assert {(page, text) for page, text in found if page not in told} == set()


def test_the_documented_installation_names_every_package():
    installed = {word for command in INSTALLATIONS for word in shlex.split(command)}
    packages = {f"./packages/{path.parent.name}" for path in ROOT.glob("packages/*/pyproject.toml")}
    assert {word.partition("[")[0] for word in installed if word.startswith("./")} == packages


@pytest.mark.parametrize("command", SESSIONS)
def test_a_session_of_the_documentation_exists(command):
    name = NOX.fullmatch(command).group(1)
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert re.search(rf"^@nox\.session\ndef {name}\(", noxfile, re.MULTILINE)


def test_the_readme_has_one_command_to_train_and_one_to_test():
    assert [NOX.fullmatch(command).group(1) for command in SESSIONS] == ["train", "tests"]


def test_the_automatic_checks_run_exactly_the_test_command_of_the_readme():
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line and not line.startswith("#")]
    preparation = ["set -euo pipefail", 'cd "$(dirname "$0")/.."']
    installation = [".ci/install_sshd", ".ci/install_schedulers"]
    assert code == [*preparation, *installation, SESSIONS[1]]


def options_of_trainers():
    """Options of scripts in models/ and examples/; each `--switch` has a `--no-switch` too."""
    scripts = [*ROOT.glob("models/*/*.py"), *ROOT.glob("examples/tutorials/*.py")]
    sources = [path.read_text(encoding="utf-8") for path in scripts]
    added = {option for source in sources for option in re.findall(r'"(--[a-z]\w*)"', source)}
    return added | {f"--no-{option[2:]}" for option in added}


def test_every_option_in_the_documentation_exists():
    known = set(re.findall(r"--?[a-z][\w-]*", run_command("tarantella --help").output))
    known |= options_of_trainers() | OF_SCHEDULERS
    actions = [*make_parser()._actions, *make_verify_parser()._actions]
    known |= {option for action in actions for option in action.option_strings}
    mentioned = re.compile(r"`(--?[a-z][\w-]*)(?: [A-Z]+=?[A-Z. ]*)?`")
    pages = [*PAGES, *ROOT.glob("docs/reference/*.md")]
    used = {
        (page.name, option)
        for page in pages
        for option in mentioned.findall(page.read_text(encoding="utf-8"))
    }
    assert used
    unknown = {(page, option) for page, option in used if option not in known}
    assert {each for each in unknown if not advice_for_other_words([each[1]])} == set()


def test_every_option_has_a_row_in_the_reference():
    actions = make_parser()._actions
    shown = [action for action in actions if action.help != argparse.SUPPRESS]
    known = {option for action in shown for option in action.option_strings} - {"-h"}
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`-.*?) \|", page, re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"`(--?\w[\w-]*)", row)} == known


EVERYWHERE = ["*.md", "docs/**/*.md", "packages/*/*.md", "models/**/*.md", "benchmarks/**/*.md"]
SETTING_UP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_session_that_a_page_names_exists():
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r"^@nox\.session(?:\n@.*)*\ndef (\w+)\(", noxfile, re.MULTILINE))
    pages = {page for pattern in EVERYWHERE for page in ROOT.glob(pattern)}
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"nox -s \"?(\w+)", page.read_text(encoding="utf-8"))
    }
    assert ("CONTRIBUTING.md", "thorough") in named
    assert {(page, name) for page, name in named if name not in sessions} == set()


def test_what_contributors_install_is_there():
    root = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = re.findall(r"--group ([\w-]+)", SETTING_UP)
    assert {*root["dependency-groups"]} - {*groups} == {"libraries", "torchrun"}  # large
    assert {*groups} <= {*root["dependency-groups"]}
    packages = {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}
    assert set(re.findall(r"-e \"?\./packages/([\w-]+)", SETTING_UP)) == packages


def test_the_one_test_of_contributors_exists():
    [command] = re.findall(r"^pytest .*$", SETTING_UP, re.MULTILINE)
    finished = run_command(f"python -m {command} -q --collect-only")
    assert finished.status == 0, finished.output
