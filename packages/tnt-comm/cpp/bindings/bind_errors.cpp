#include "bindings.hpp"
#include "errors.hpp"

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

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

}  // namespace tnt::comm::bindings
