#include <pybind11/stl.h>

#include <string>
#include <tuple>

#include "bindings.hpp"
#include "interrupt.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/tnt_comm.h"
#include "tnt/comm/trace/part_files.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, double, double> all_counters() {
  const Counters now = [] {
    const InterruptibleCall interruptible;  // the first call may join the job
    return counters();
  }();
  return {now.num_operations, now.num_bytes, now.num_waits, now.communication_s, now.exposed_s};
}

}  // namespace

void bind_trace(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("counters", &all_counters);
  module.def("has_timeline", [] { return process_timeline() != nullptr; });
  module.def("begin_slice", &tnt_timeline_begin, py::arg("name"));
  module.def("end_slice", &tnt_timeline_end, py::arg("name"));
  module.def("mark_instant", &tnt_timeline_instant, py::arg("name"));
  module.def("merge_timeline", &merge_left_parts, py::arg("path"), Unlocked());
}

}  // namespace tnt::comm::bindings
