from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTntLaunch(PythonPackage):
    """Starts, watches and ends the ranks of a data-parallel training: the command tarantella."""

    homepage = "https://github.com/cc-hpc-itwm/tarantella"
    pypi = "tnt-launch/tnt_launch-1.0.0rc2.tar.gz"

    license("Apache-2.0")

    version("1.0.0rc2")

    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("py-hatchling@1.26:", type="build")
    depends_on("py-cloudpickle@3:", type=("build", "run"))
    depends_on("py-psutil@5.9:", type=("build", "run"))
