#include <string>

#include "bindings.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

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
  const std::size_t folder_end = text.rfind('/');
  const std::string file = folder_end == std::string::npos ? text : text.substr(folder_end + 1);
  return file + ":" + std::string(py::str(frame.attr("f_lineno")));
}

}  // namespace

std::string user_line() {
  const py::gil_scoped_acquire locked;
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
