from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTntData(PythonPackage):
    """Splits any batched tf.data pipeline between ranks: every step is one serial batch."""

    homepage = "https://github.com/cc-hpc-itwm/tarantella"
    pypi = "tnt-data/tnt_data-1.0.0rc2.tar.gz"

    license("Apache-2.0")

    version("1.0.0rc2")

    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("py-hatchling@1.26:", type="build")
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-tensorflow@2.18:2.21", type=("build", "run"))
