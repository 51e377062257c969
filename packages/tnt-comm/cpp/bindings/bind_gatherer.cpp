#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/communicator/gatherer.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

std::int64_t create_gatherer(const std::shared_ptr<Group>& group, const std::string& name) {
  const InterruptibleCall interruptible;
  return gatherers().add(std::make_shared<Gatherer>(group, name));
}

void close_gatherer(std::int64_t handle) {
  gatherers().close(handle);
}

void start_blocks(std::int64_t handle, const py::array& array) {
  const void* data = array.data();
  const auto num_bytes = static_cast<std::size_t>(array.nbytes());
  const py::gil_scoped_release unlocked;
  gatherers().find(handle)->start(data, num_bytes);
}

py::list finish_blocks(std::int64_t handle, double timeout_s) {
  std::vector<std::size_t> sizes;
  RecycledMemory blocks;
  {
    const py::gil_scoped_release unlocked;
    blocks = gatherers().find(handle)->take(sizes, timeout_s, python_signals());
  }
  std::size_t end = 0;
  for (std::size_t& size : sizes) size = end += size;
  return views_of(std::move(blocks), sizes);
}

}  // namespace

void bind_gatherer(py::module_& module) {
  module.def("create_gatherer", &create_gatherer, py::arg("group"), py::arg("name"));
  module.def("close_gatherer", &close_gatherer, py::arg("handle"));
  module.def("start_blocks", &start_blocks, py::arg("handle"), py::arg("array"));
  module.def("finish_blocks", &finish_blocks, py::arg("handle"), py::arg("timeout_s"));
}

}  // namespace tnt::comm::bindings
