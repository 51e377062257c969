#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>

#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/base/memory_size.hpp"
#include "tnt/comm/communicator/shared_array.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

py::array empty(const std::shared_ptr<Group>& group, const py::dtype& dtype,
                const std::vector<py::ssize_t>& shape) {
  std::size_t num_bytes = static_cast<std::size_t>(dtype.itemsize());
  for (const py::ssize_t length : shape) {
    num_bytes = bytes_in_memory(static_cast<std::size_t>(length), num_bytes, "An array");
  }
  std::unique_ptr<SharedArray> memory;
  {
    const InterruptibleCall interruptible;
    memory = std::make_unique<SharedArray>(*group, num_bytes);
  }
  const void* data = memory->data();
  const py::capsule owner(memory.release(),
                          [](void* owned) { delete static_cast<SharedArray*>(owned); });
  return py::array(dtype, shape, data, owner);
}

}  // namespace

void bind_shared_array(py::module_& module) {
  module.def("empty", &empty, py::arg("group"), py::arg("dtype"), py::arg("shape"));
}

}  // namespace tnt::comm::bindings
