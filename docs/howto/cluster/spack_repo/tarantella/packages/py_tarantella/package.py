from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTarantella(PythonPackage):
    """Synchronous data-parallel training of Keras models on many CPUs or GPUs."""

    homepage = "https://github.com/cc-hpc-itwm/tarantella"
    pypi = "tarantella/tarantella-1.0.0rc2.tar.gz"

    license("Apache-2.0")

    version("1.0.0rc2")

    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("py-hatchling@1.26:", type="build")
    depends_on("py-tnt-comm@1.0.0rc1:1", type=("build", "run"))
    depends_on("py-tnt-data@1.0.0rc1:1", type=("build", "run"))
    depends_on("py-tnt-keras@1.0.0rc1:1", type=("build", "run"))
    depends_on("py-tnt-launch@1.0.0rc1:1", type=("build", "run"))

    def test_doctor(self):
        """tarantella doctor finds no problem"""
        which(join_path(self.spec["py-tnt-launch"].prefix.bin, "tarantella"))("doctor")
