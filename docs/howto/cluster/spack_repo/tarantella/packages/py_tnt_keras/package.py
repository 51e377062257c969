from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTntKeras(PythonPackage):
    """Synchronous data-parallel training of Keras models on TensorFlow."""

    homepage = "https://github.com/cc-hpc-itwm/tarantella"
    pypi = "tnt-keras/tnt_keras-1.0.0rc2.tar.gz"

    license("Apache-2.0")

    version("1.0.0rc2")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("python@3.10:3.13", type=("build", "run"))
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("py-tnt-comm@1.0.0rc1:1", type=("build", "run"))
    depends_on("py-tnt-data@1.0.0rc1:1", type=("build", "run"))
    depends_on("py-keras@3.8:3 backend=tensorflow", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-tensorflow@2.18:2.21", type=("build", "run"))

    conflicts("%gcc@:11", msg="tnt-keras is C++20: g++ 12 or newer")
