#include <dlfcn.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "tnt/comm/base/start_wait.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/tnt_comm.h"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

// Half an upgrade leaves two versions side by side, whose classes differ in C++.
void check_version_of_library() {
  const std::string version = tnt_comm_version();
  if (version == TNT_COMM_VERSION) return;
  Dl_info place{};
  ::dladdr(reinterpret_cast<const void*>(&tnt_comm_version), &place);
  throw py::import_error("The Python module of tnt-comm " TNT_COMM_VERSION
                         " has loaded the library of tnt-comm " +
                         version + " (" + place.dli_fname + "): reinstall tnt-comm.");
}

std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, double, double> all_counters() {
  ensure_joined();
  const Counters now = counters();
  return {now.num_operations, now.num_bytes, now.num_waits, now.communication_s, now.exposed_s};
}

// For the first call that joins the job, which this one need not be.
void join_within(std::optional<double> timeout_s) {
  set_start_timeout(timeout_s);
  ensure_joined();
}

void set_watched_by_python(const py::function& place_of) {
  set_watched([place_of](int rank) {
    const Locked locked;
    return py::cast<std::string>(place_of(rank));
  });
}

void bind_errors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    } catch (const std::exception&) {
      throw;  // pybind11 knows it
    } catch (...) {
      set_python_error(standard_error_of(pointer));
    }
  });
}

void bind_job(py::module_& module) {
  using WithoutLock = py::call_guard<Unlocked>;
  module.def("init", &join_within, py::arg("timeout_s") = py::none());
  module.def("set_watched", &set_watched_by_python);
  module.def("finalize", &finalize, WithoutLock());
  module.def("fail", &fail, WithoutLock());
  module.def("cause_rank", &cause_rank);
  module.def("is_initialized", &is_initialized);
  module.def("get_rank", [] { return world_environment().rank; }, WithoutLock());
  module.def("get_size", [] { return world_environment().size; }, WithoutLock());
  module.def("get_local_rank", [] { return world_environment().local_rank; }, WithoutLock());
  module.def("num_idle_bytes", &RecycledMemory::num_idle_bytes);
  module.def("get_local_size", [] { return world_environment().local_size; }, WithoutLock());
  module.def("set_ucx_wheel_folder", &use_ucx_wheel);
  module.def("counters", &all_counters);
}

void bind_timeline(py::module_& module) {
  module.def("has_timeline", [] { return process_timeline() != nullptr; });
  module.def("begin_slice", &tnt_timeline_begin);
  module.def("end_slice", &tnt_timeline_end);
  module.def("mark_instant", &tnt_timeline_instant);
  module.def("take_timeline", [] {
    Runtime& taken = *process_runtime();
    taken.take_timeline();
    const Environment& environment = taken.environment();
    return py::make_tuple(environment.timeline, environment.job_id, environment.rank,
                          environment.size, taken.clock_offset().offset_ns);
  });
  module.def("timeline_records", [] { return py::bytes(process_runtime()->timeline_records()); });
  module.def("look_at_others", [] {
    const OtherRanks others = process_runtime()->look_at_others();
    return py::make_tuple(others.is_one_running, others.has_one_ended, others.has_one_failed);
  });
  module.def("warn_of_timeline",
             [](const std::string& problem) { process_runtime()->warn_of_timeline(problem); });
}

py::object innermost_frame() {
  auto* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  return frame == nullptr ? py::none() : py::reinterpret_borrow<py::object>(frame);
}

bool is_of_this_package(const py::object& frame) {
  const py::dict globals = frame.attr("f_globals");
  const std::string name = py::str(globals.attr("get")("__name__", ""));
  return name.substr(0, name.find('.')) == "tnt_comm";
}

// Other ranks are told this, and bytes of a file's name may be no text.
std::string line_of(const py::object& frame) {
  const py::object path = frame.attr("f_code").attr("co_filename");
  const std::string text = py::bytes(path.attr("encode")("utf-8", "backslashreplace"));
  const std::string file = text.substr(text.rfind('/') + 1);
  return file + ":" + std::string(py::str(frame.attr("f_lineno")));
}

}  // namespace

// The classes are Python's (errors.py), since CommTimeoutError has two bases.
void set_python_error(const Error& error) {
  if (error.kind() == ErrorKind::usage) return py::set_error(PyExc_ValueError, error.what());
  const std::string name = error.kind() == ErrorKind::timeout     ? "CommTimeoutError"
                           : error.kind() == ErrorKind::peer_lost ? "PeerLostError"
                           : error.kind() == ErrorKind::mismatch  ? "MismatchError"
                                                                  : "CommError";
  const py::object type = py::module_::import("tnt_comm.errors").attr(name.c_str());
  const py::object raised = type(error.what());
  if (error.cause_rank() != Error::kNoRank) raised.attr("cause_rank") = error.cause_rank();
  py::set_error(type, raised);
}

void set_python_error(const StandardError& error) {
  py::set_error(error.is_bad_alloc ? PyExc_MemoryError : PyExc_RuntimeError, error.what.c_str());
}

// Python writes the timeline of the process, if there is one, from its start on.
namespace {

// The launcher need not tell other hosts of the end of a rank that has joined.
void note_joined() {
  static bool is_noted = false;
  if (std::exchange(is_noted, true)) return;
  py::module_::import("tnt_comm.board").attr("note_joined")();
}

}  // namespace

void ensure_joined() {
  static bool is_timeline_kept = false;
  {
    const InterruptibleCall interruptible;
    runtime();
  }
  note_joined();
  if (is_timeline_kept || process_timeline() == nullptr) return;
  is_timeline_kept = true;
  py::module_::import("tnt_comm.timeline.keeper").attr("start")();
}

std::string user_line() {
  const Locked locked;
  try {
    for (py::object frame = innermost_frame(); !frame.is_none(); frame = frame.attr("f_back")) {
      if (!is_of_this_package(frame)) return line_of(frame);
    }
  } catch (const py::error_already_set&) {
    // Not worth failing a collective for.
  }
  return {};
}

}  // namespace tnt::comm::bindings

PYBIND11_MODULE(_core, module) {
  using namespace tnt::comm::bindings;  // NOLINT: the functions above
  module.doc() = "Private C++ core of tnt_comm; use the package's public names.";
  check_version_of_library();
  bind_errors();
  bind_job(module);
  bind_timeline(module);
  bind_group(module);
  bind_allreduce(module);
  bind_reducer(module);
  bind_devices(module);
}
