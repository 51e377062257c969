"""The recipes of the page on clusters say what the packages say, and do what the page says."""

import ast
import re
import shutil
from hashlib import sha256

import pytest
from lupa import LuaRuntime
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from run_command import ROOT, run_command
from source_tree import PACKAGES

FOLDER = ROOT / "docs/howto/cluster"
PAGE = (ROOT / "docs/howto/install_on_a_cluster.md").read_text("utf-8")
VERSIONS = {name: tables["project"]["version"] for name, tables in PACKAGES.items()}
SPACK = FOLDER / "spack_repo/tarantella/packages"
DEFINITION = (FOLDER / "tarantella.def").read_text("utf-8")
SECTIONS = dict(re.findall(r"^%(\w+)\n((?: .*\n|\n)*)", DEFINITION, re.MULTILINE))


def requirements(name):
    """What a package needs when it is built and when it runs, with its TensorFlow."""
    project = PACKAGES[name]["project"]
    extra = project.get("optional-dependencies", {}).get("tensorflow", [])
    lines = [*PACKAGES[name]["build-system"]["requires"], *project["dependencies"], *extra]
    found = {need.name: need.specifier for need in map(Requirement, lines)}
    return {**found, "python": SpecifierSet(project["requires-python"])}


ALL_NEEDS = [(name, *need) for name in PACKAGES for need in requirements(name).items()]


def test_the_page_names_every_recipe_and_no_other_file():
    files = {path.name for path in FOLDER.iterdir()}
    named = set(re.findall(r"cluster/(?!spack_repo)([\w.]+)", PAGE))
    assert named | {"spack_repo"} == files
    assert (FOLDER / "spack_repo/tarantella/repo.yaml").is_file()


# ---- Apptainer ----


def arguments_of_the_definition():
    lines = SECTIONS["arguments"].split()
    return dict(line.split("=", 1) for line in lines)


def test_the_definition_has_what_apptainer_runs():
    parts = {"arguments", "files", "post", "environment", "runscript", "test"}
    assert set(SECTIONS) == parts
    assert DEFINITION.startswith("Bootstrap: docker\nFrom: debian:12-slim\n")
    used = set(re.findall(r"\{\{ (\w+) \}\}", SECTIONS["post"]))
    assert used == set(arguments_of_the_definition())


def test_the_definition_installs_the_version_of_the_tree():
    found = arguments_of_the_definition()["tarantella"]
    wanted = VERSIONS["tarantella"]
    assert found == wanted, f"tarantella.def: write tarantella={wanted} in %arguments"


def test_the_definition_installs_tensorflow_and_keras_that_fit():
    given = arguments_of_the_definition()
    needs = requirements("tnt-keras")
    [pin] = Requirement(given["tensorflow"]).specifier
    assert needs["tensorflow"].contains(pin.version)
    assert needs["keras"].contains(given["keras"])


def test_the_definition_copies_files_that_the_tree_has():
    sources = [line.split()[0] for line in SECTIONS["files"].strip().splitlines()]
    assert sources == ["dist", "docs/howto/cluster/train.py"]  # the first is built


def test_the_image_is_tested_by_the_commands_of_the_page():
    copied = SECTIONS["test"].replace("/opt/tarantella/", "docs/howto/cluster/")
    commands = [line.strip().replace("--no-gpu ", "") for line in copied.strip().splitlines()[1:]]
    assert "\n".join(commands) in PAGE


def test_the_training_of_the_page_runs_on_two_ranks():
    finished = run_command("tarantella -n 2 --no-gpu -- docs/howto/cluster/train.py")
    assert (finished.status, finished.output) == (0, "trained on 2 ranks\n"), finished.messages


# ---- module file ----


def load_module(libraries):
    """What loading the module file does, as Lmod would, on a host with some libraries."""
    lua = LuaRuntime()
    done = []
    words = lua.globals()
    for name in ("help", "whatis", "conflict", "setenv", "prepend_path"):
        words[name] = lambda *arguments, name=name: done.append((name, *arguments))
    words["pathJoin"] = lambda *parts: "/".join(parts)
    words["isFile"] = lambda path: path in libraries
    words["myModuleVersion"] = lambda: "1.2.3"
    lua.execute((FOLDER / "modulefile.lua").read_text("utf-8"))
    return done


UCX = ("setenv", "TNT_UCX_LIBRARY", "/usr/lib64/libucp.so.0")


def test_the_module_brings_the_environment_of_its_version():
    done = load_module([])
    environment = "/opt/apps/tarantella/1.2.3"
    assert ("prepend_path", "PATH", f"{environment}/bin") in done
    assert environment.replace("1.2.3", "$version") in PAGE
    assert UCX not in done


def test_the_module_takes_the_ucx_of_the_cluster():
    assert UCX in load_module(["/usr/lib64/libucp.so.0"])


# ---- Spack ----


def spack_name(name):
    return name if name == "python" else "py-" + name.replace("_", "-").removeprefix("py-")


def recipe_of(name):
    return SPACK / spack_name(name).replace("-", "_") / "package.py"


def calls(name, function):
    """First arguments of a directive in the recipe of a package."""
    tree = ast.parse(recipe_of(name).read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    wanted = [node for node in nodes if getattr(node.func, "id", "") == function]
    return [ast.literal_eval(node.args[0]) for node in wanted]


def spack_range(specifier):
    """`>=2.18,<2.22` as Spack writes it: `2.18:2.21`."""
    bounds = {clause.operator: clause.version for clause in specifier}
    assert set(bounds) <= {">=", "<"}, f"Spack has no word for {specifier}"
    end = bounds.get("<", "")
    if end:
        *front, last = end.split(".")
        end = ".".join([*front, str(int(last) - 1)])
    return f"{bounds['>=']}:{end}"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_recipe_of_spack_has_the_version_of_its_package(name):
    lines = recipe_of(name).read_text("utf-8")
    wanted = VERSIONS[name]
    place = recipe_of(name).relative_to(ROOT)
    assert calls(name, "version") == [wanted], f'{place}: write version("{wanted}")'
    assert f"-{wanted}.tar.gz" in lines, f"{place}: pypi = ... must end with -{wanted}.tar.gz"


@pytest.mark.parametrize(("name", "other", "specifier"), ALL_NEEDS)
def test_a_recipe_of_spack_has_the_requirements_of_its_package(name, other, specifier):
    wanted = f"{spack_name(other)}@{spack_range(specifier)}"
    found = [line.partition(" ")[0] for line in calls(name, "depends_on")]
    place = recipe_of(name).relative_to(ROOT)
    assert wanted in found, f'{place}: write depends_on("{wanted}")'


@pytest.mark.parametrize("name", PACKAGES)
def test_a_recipe_of_spack_needs_no_other_python_package(name):
    found = [line.partition("@")[0] for line in calls(name, "depends_on")]
    named = {each for each in found if each.startswith("py-")}
    assert named == {spack_name(other) for other in requirements(name)} - {"python"}


@pytest.mark.parametrize("name", ["tnt-comm", "tnt-keras"])
def test_a_recipe_of_spack_has_the_cmake_of_its_package(name):
    lists = (ROOT / "packages" / name / "CMakeLists.txt").read_text("utf-8")
    [minimum] = re.findall(r"cmake_minimum_required\(VERSION ([\d.]+)\)", lists)
    assert f"cmake@{minimum}:" in calls(name, "depends_on")


def take_sdists(folder, names):
    """Run `take_sdists` on a copy of the recipes, with sdists of some packages."""
    shutil.copytree(FOLDER, folder / "cluster")
    (folder / "dist").mkdir()
    for name in names:
        file = f"{name.replace('-', '_')}-{VERSIONS[name]}.tar.gz"
        (folder / "dist" / file).write_text(name)
    return run_command(f"{folder}/cluster/take_sdists {folder}/dist {folder}/mirror")


def test_take_sdists_makes_a_mirror_and_writes_checksums(tmp_path):
    finished = take_sdists(tmp_path, PACKAGES)
    assert finished.status == 0, finished.messages
    for name in PACKAGES:
        checksum = sha256(name.encode()).hexdigest()
        inside = recipe_of(name).relative_to(FOLDER)
        recipe = (tmp_path / "cluster" / inside).read_text("utf-8")
        assert f'    version("{VERSIONS[name]}", sha256="{checksum}")\n' in recipe
        archive = tmp_path / "mirror/_source-cache/archive" / checksum[:2] / f"{checksum}.tar.gz"
        assert archive.read_text() == name


def test_take_sdists_says_which_one_is_missing(tmp_path):
    finished = take_sdists(tmp_path, [name for name in PACKAGES if name != "tnt-launch"])
    file = f"tnt_launch-{VERSIONS['tnt-launch']}.tar.gz"
    assert finished.status == 1
    assert f"{file} is missing: `python -m build --sdist`" in finished.messages


# ---- EasyBuild ----


def easyconfig():
    """The values of the easyconfig, which is Python."""
    values = {"SOURCE_PY3_WHL": "%(name)s-%(version)s-py3-none-any.whl"}
    exec(compile((FOLDER / "Tarantella.eb").read_text("utf-8"), "Tarantella.eb", "exec"), values)
    return values


def test_the_easyconfig_has_the_versions_of_the_tree_in_the_order_of_needs():
    values = easyconfig()
    found = [(name.replace("_", "-"), version) for name, version, *_ in values["exts_list"][1:]]
    assert dict(found) == VERSIONS, "Tarantella.eb: write the versions of packages/*/pyproject.toml"
    order = [name for name, _ in found]
    for name in order:
        needed = {*requirements(name)} & {*PACKAGES}
        assert needed <= {*order[: order.index(name)]}


@pytest.mark.parametrize(("name", "other", "specifier"), ALL_NEEDS)
def test_the_modules_of_the_easyconfig_meet_the_requirements_of_a_package(name, other, specifier):
    values = easyconfig()
    modules = [*values["builddependencies"], *values["dependencies"], *values["exts_list"]]
    found = {each[0].lower().replace("_", "-"): each[1] for each in modules}
    version = found.get(other.replace("_", "-"))
    inside_others = {"keras", "numpy", "cloudpickle", "psutil"}
    if version is None:
        assert other in inside_others, f"Tarantella.eb: {name} needs {other}"
    else:
        assert specifier.contains(version), f"Tarantella.eb: {name} needs {other}{specifier}"


def test_the_page_fetches_the_pybind11_of_the_easyconfig():
    name, version, _ = easyconfig()["exts_list"][0]
    assert f"{name}=={version}\n" in PAGE
