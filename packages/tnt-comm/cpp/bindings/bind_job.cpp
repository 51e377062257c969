#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/communicator/runtime.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {

void bind_job(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("init", [] { runtime(); }, py::call_guard<InterruptibleCall>());
  module.def("finalize", &finalize, Unlocked());
  module.def("is_initialized", &is_initialized);
  module.def("get_rank", [] { return world_environment().rank; }, Unlocked());
  module.def("get_size", [] { return world_environment().size; }, Unlocked());
  module.def("get_local_rank", [] { return world_environment().local_rank; }, Unlocked());
  module.def("num_idle_bytes", &RecycledMemory::num_idle_bytes);
  module.def("get_local_size", [] { return world_environment().local_size; }, Unlocked());
}

}  // namespace tnt::comm::bindings
