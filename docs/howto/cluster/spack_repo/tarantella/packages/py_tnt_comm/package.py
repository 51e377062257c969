from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyTntComm(PythonPackage):
    """Collective communication between the processes of a data-parallel training job."""

    homepage = "https://github.com/cc-hpc-itwm/tarantella"
    pypi = "tnt-comm/tnt_comm-1.0.0rc2.tar.gz"

    license("Apache-2.0")

    version("1.0.0rc2")

    variant("ucx", default=True, description="Let hosts talk through UCX")
    variant("gpi2", default=False, description="Let hosts talk through GPI-2, which is GPL-3")

    depends_on("cxx", type="build")
    depends_on("python@3.10:3.13", type=("build", "link", "run"))
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("py-pybind11@3.0:", type="build")
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-ml-dtypes@0.4:", type=("build", "run"))
    # Both are opened while a job runs, by the variables below.
    depends_on("ucx@1.13:", when="+ucx", type="run")
    depends_on("gpi-2@=1.5.1,=1.6.0", when="+gpi2", type="run")

    conflicts("%gcc@:11", msg="tnt-comm is C++20: g++ 12 or newer")

    def setup_run_environment(self, env):
        if self.spec.satisfies("+ucx"):
            env.set("TNT_UCX_LIBRARY", join_path(self.spec["ucx"].prefix.lib, "libucp.so.0"))
        if self.spec.satisfies("+gpi2"):
            found = find_libraries("libGPI2", self.spec["gpi-2"].prefix, recursive=True)
            env.set("TNT_GPI2_LIBRARY", found[0])
