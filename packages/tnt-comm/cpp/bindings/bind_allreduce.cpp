// The blocking allreduce of plain arrays, in one call without objects in
// between. Whatever is not plain gives None, and the caller goes the general
// way; so there is one place, arrays.py, that says what is wrong with arrays.

#include <array>
#include <cstring>
#include <exception>
#include <new>

#include "arrays.hpp"
#include "bindings.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

struct Call {
  std::byte* in;
  std::byte* out;
  std::size_t count;
  DType dtype;
  ReduceOp op;
  CallLabel label;
};

const PlainArrays& plain_arrays() {
  static const auto* arrays = new PlainArrays();
  return *arrays;
}

using OpNames = std::array<PyObject*, kNumReduceOps>;

// Interned, as constants of Python are: so they are found without comparing texts.
const OpNames& op_names() {
  static const OpNames names = [] {
    constexpr const char* kNames[kNumReduceOps] = {"sum", "prod", "min", "max", "and", "or"};
    OpNames interned{};
    for (std::size_t i = 0; i < kNumReduceOps; ++i) {
      interned[i] = PyUnicode_InternFromString(kNames[i]);
      if (interned[i] == nullptr) throw py::error_already_set();
    }
    return interned;
  }();
  return names;
}

bool parse_op(PyObject* name, ReduceOp& op) {
  if (!PyUnicode_CheckExact(name)) return false;
  const OpNames& names = op_names();
  for (std::size_t i = 0; i < kNumReduceOps; ++i) {
    if (name != names[i] && PyUnicode_Compare(name, names[i]) != 0) continue;
    op = static_cast<ReduceOp>(i);
    return true;
  }
  return false;
}

// As long as the object lives.
std::string_view view_of(PyObject* string) {
  if (PyUnicode_CheckExact(string) && PyUnicode_GET_LENGTH(string) == 0) return {};
  Py_ssize_t num_bytes = 0;
  const char* data = PyUnicode_AsUTF8AndSize(string, &num_bytes);
  if (data == nullptr) throw py::error_already_set();
  return {data, static_cast<std::size_t>(num_bytes)};
}

bool overlap_partly(const Call& call) {
  const std::size_t num_bytes = call.count * size_of(call.dtype);
  return call.in != call.out && call.in < call.out + num_bytes && call.out < call.in + num_bytes;
}

bool parse(PyObject* array, PyObject* op, Call& call) {
  if (!plain_arrays().is_plain(array, call.dtype) || !parse_op(op, call.op)) return false;
  call.in = PlainArrays::data_of(array);
  call.count = PlainArrays::count_of(array);
  return true;
}

bool parse_out(PyObject* array, PyObject* out, Call& call) {
  DType dtype{};
  const bool fits = array == out || (plain_arrays().is_plain(out, dtype) && dtype == call.dtype &&
                                     PlainArrays::have_same_shape(array, out));
  if (!fits || !PlainArrays::is_writeable(out)) return false;
  call.out = PlainArrays::data_of(out);
  return !overlap_partly(call);
}

void wait_unlocked(const std::shared_ptr<Request>& request) {
  const py::gil_scoped_release unlocked;
  request->wait(0, python_signals());
}

std::shared_ptr<Request> start(Group& group, const Call& call) {
  return group.allreduce_now(call.in, call.out, call.count, call.dtype, call.op, call.label);
}

void run(Group& group, const Call& call) {
  if (group.is_quick(call.count * size_of(call.dtype))) {
    // Releasing the lock would take longer than the call.
    const auto request = start(group, call);
    if (request) wait_unlocked(request);
    return;
  }
  const py::gil_scoped_release unlocked;
  const auto request = start(group, call);
  if (request) request->wait(0, python_signals());
}

// Runs a function and turns what it throws into a Python exception: pybind11
// does that for its own functions only.
template <typename Function>
PyObject* guard(Function&& function) {
  try {
    return function();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const Error& error) {
    set_python_error(error);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* none() {
  Py_RETURN_NONE;
}

// allreduce_plain(group | None, array, op, out | None, label, caller): the
// result, or None if the arrays are not plain.
PyObject* allreduce_plain(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guard([&]() -> PyObject* {
    if (count != 6) {
      PyErr_SetString(PyExc_TypeError, "allreduce_plain takes 6 arguments");
      return nullptr;
    }
    Call call;
    PyObject* array = arguments[1];
    const bool is_world = arguments[0] == Py_None;
    if ((is_world && !is_initialized()) || !parse(array, arguments[2], call)) return none();
    call.label = {view_of(arguments[4]),
                  view_of(arguments[5]),
                  &user_line,
                  {},
                  PlainArrays::packed_shape_of(array)};
    py::object out = py::reinterpret_borrow<py::object>(arguments[3]);
    if (out.is_none()) {
      out = PlainArrays::like(array);
      call.out = PlainArrays::data_of(out.ptr());
    } else if (!parse_out(array, out.ptr(), call)) {
      return none();
    }
    if (is_world) {
      run(*runtime().world(), call);
    } else {
      run(*py::cast<std::shared_ptr<Group>>(py::handle(arguments[0])), call);
    }
    return out.release().ptr();
  });
}

}  // namespace

void bind_allreduce(py::module_& module) {
  static PyMethodDef functions[] = {
      {"allreduce_plain", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&allreduce_plain)),
       METH_FASTCALL, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  plain_arrays();  // looks up numpy, which is not for the middle of a call
  op_names();
  if (PyModule_AddFunctions(module.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace tnt::comm::bindings
