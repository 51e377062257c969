"""Trees of files as the kernel and the drivers of GPUs show them, of hosts that do not exist."""

from pathlib import Path


class MadeUpHost:
    """A host in a folder, to which CPUs and GPUs are added."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path, text):
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add_nodes(self, *cpu_lists):
        """Add NUMA nodes, with the CPUs that the kernel would list for each."""
        for node, cpus in enumerate(cpu_lists):
            self.put(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")

    def add_cores(self, num_cores, threads=1, cores_of_package=64):
        """Add CPUs, numbered as usual: the second threads of all cores behind the first ones."""
        for number in range(num_cores * threads):
            core = number % num_cores
            folder = f"sys/devices/system/cpu/cpu{number}/topology"
            siblings = ",".join(str(core + num_cores * thread) for thread in range(threads))
            self.put(f"{folder}/thread_siblings_list", f"{siblings}\n")
            self.put(f"{folder}/physical_package_id", f"{core // cores_of_package}\n")

    def add_device(self, pci, node, near=""):
        """Add a device of PCI."""
        self.put(f"sys/bus/pci/devices/{pci}/numa_node", f"{node}\n")
        self.put(f"sys/bus/pci/devices/{pci}/local_cpulist", f"{near}\n")

    def add_nvidia_gpu(self, pci, node, uuid, model="NVIDIA A100-SXM4-40GB", near=""):
        """Add a GPU as NVIDIA's driver shows it."""
        self.add_device(pci, node, near)
        self.put(
            f"proc/driver/nvidia/gpus/{pci}/information",
            f"Model: \t\t {model}\nIRQ:   \t\t 124\nGPU UUID: \t {uuid}\n"
            f"Bus Type: \t PCIe\nBus Location: \t {pci}\nDevice Minor: \t 0\n",
        )

    def add_kfd_node(self, number, **properties):
        """Add what AMD's driver calls a node: a GPU, or the CPUs."""
        lines = "".join(f"{name} {value}\n" for name, value in properties.items())
        self.put(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", lines)
