#include <pybind11/stl.h>

#include <cstdint>
#include <tuple>

#include "bindings.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/tnt_comm.h"
#include "tnt/comm/trace/trace_files.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

const char* class_name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return nullptr;  // Python's own ValueError
    case ErrorKind::comm:
      return "CommError";
    case ErrorKind::timeout:
      return "CommTimeoutError";
    case ErrorKind::peer_lost:
      return "PeerLostError";
    case ErrorKind::mismatch:
      return "MismatchError";
  }
  return "CommError";
}

std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, double, double> all_counters() {
  const Counters now = [] {
    const InterruptibleCall interruptible;  // the first call may join the job
    return counters();
  }();
  return {now.num_operations, now.num_bytes, now.num_waits, now.communication_s, now.exposed_s};
}

void bind_errors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

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
  module.def("set_ucx_wheel_folder", &set_ucx_wheel_folder);
  module.def("counters", &all_counters);
  module.def("has_timeline", [] { return process_timeline() != nullptr; });
  module.def("begin_slice", &tnt_timeline_begin);
  module.def("end_slice", &tnt_timeline_end);
  module.def("mark_instant", &tnt_timeline_instant);
  module.def("merge_timeline", &merge_left_parts, Unlocked());
}

}  // namespace

// The classes are Python's (errors.py), since CommTimeoutError has two bases.
void set_python_error(const Error& error) {
  const char* name = class_name_of(error.kind());
  if (name == nullptr) {
    py::set_error(PyExc_ValueError, error.what());
  } else {
    py::set_error(py::module_::import("tnt_comm.errors").attr(name), error.what());
  }
}

}  // namespace tnt::comm::bindings

PYBIND11_MODULE(_core, module) {
  using namespace tnt::comm::bindings;  // NOLINT: the functions above
  module.doc() = "Private C++ core of tnt_comm; use the package's public names.";
  bind_errors();
  bind_job(module);
  bind_group(module);
  bind_allreduce(module);
  bind_reducer(module);
}
