// The blocking allreduce of plain arrays, in one call without objects in
// between. Whatever is not plain gives None, and the caller goes the general
// way; so there is one place, arrays.py, that says what is wrong with arrays.

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <optional>

#include "bindings.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

// Python's objects for the values of an enum, by their names. Never released: the interpreter may
// end before.
template <typename Value, std::size_t kCount, typename Make>
std::array<PyObject*, kCount> objects_of(Make&& make) {
  std::array<PyObject*, kCount> made{};
  for (std::size_t i = 0; i < kCount; ++i) {
    made[i] = make(name_of(static_cast<Value>(i)));
    if (made[i] == nullptr) throw py::error_already_set();
  }
  return made;
}

const auto& descriptors() {
  static const auto all = objects_of<DType, kNumDTypes>(
      [](std::string_view name) { return py::dtype::from_args(py::str(name)).release().ptr(); });
  return all;
}

// Interned, as constants of Python are: so they are found without comparing texts.
const auto& op_names() {
  static const auto all = objects_of<ReduceOp, kNumReduceOps>(
      [](std::string_view name) { return PyUnicode_InternFromString(name.data()); });
  return all;
}

// The value whose object in a table is the first that fits.
template <typename Value, typename Table, typename Fits>
std::optional<Value> find_in(const Table& table, Fits&& fits) {
  const auto found = std::find_if(table.begin(), table.end(), fits);
  if (found == table.end()) return {};
  return static_cast<Value>(found - table.begin());
}

std::optional<ReduceOp> parse_op(PyObject* name) {
  if (!PyUnicode_CheckExact(name)) return {};
  return find_in<ReduceOp>(op_names(), [name](PyObject* known) {
    return name == known || PyUnicode_Compare(name, known) == 0;
  });
}

// The dtype of a plain array: of numpy's own class, C contiguous, aligned and of a known dtype.
// numpy is not called, on the path where a hundred nanoseconds count. Other arrays are for the
// general path, which explains what is wrong with them if anything is.
std::optional<DType> plain_dtype_of(PyObject* object) {
  using Numpy = py::detail::npy_api;
  constexpr int kNeeded = Numpy::NPY_ARRAY_C_CONTIGUOUS_ | Numpy::NPY_ARRAY_ALIGNED_;
  if (Py_TYPE(object) != Numpy::get().PyArray_Type_) return {};
  const auto* array = py::detail::array_proxy(object);
  if ((array->flags & kNeeded) != kNeeded) return {};
  return find_in<DType>(descriptors(),
                        [array](PyObject* descriptor) { return descriptor == array->descr; });
}

bool can_be_result(const py::array& out, const py::array& in, DType dtype) {
  if (out.is(in)) return out.writeable();
  if (plain_dtype_of(out.ptr()) != dtype || !out.writeable()) return false;
  const auto* begin = static_cast<const std::byte*>(in.data());
  const auto* other = static_cast<const std::byte*>(out.data());
  const std::size_t num_bytes = count_of(in) * size_of(dtype);
  const bool overlap_partly =
      begin != other && begin < other + num_bytes && other < begin + num_bytes;
  return !overlap_partly &&
         std::equal(in.shape(), in.shape() + in.ndim(), out.shape(), out.shape() + out.ndim());
}

// As long as the object lives.
std::string_view view_of(PyObject* string) {
  if (PyUnicode_CheckExact(string) && PyUnicode_GET_LENGTH(string) == 0) return {};
  Py_ssize_t num_bytes = 0;
  const char* data = PyUnicode_AsUTF8AndSize(string, &num_bytes);
  if (data == nullptr) throw py::error_already_set();
  return {data, static_cast<std::size_t>(num_bytes)};
}

void run(Group& group, const Call& call, const CallLabel& label) {
  // Releasing the lock would take longer than a quick call.
  Unlocked unlocked(!group.is_quick(call.count * size_of(call.dtype)));
  const auto request = group.run(call, label);
  if (!request) return;
  unlocked.begin();
  request->wait(0, python_signals());
}

// Turns what a function throws into a Python exception: pybind11 does so for its own only.
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
  } catch (...) {
    set_python_error(standard_error_of(std::current_exception()));
  }
  return nullptr;
}

// allreduce_plain(group | None, array, op, out | None, label, caller): the
// result, or None if the arrays are not plain.
PyObject* allreduce_plain(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guard([&]() -> PyObject* {
    if (count != 6) {
      PyErr_SetString(PyExc_TypeError, "allreduce_plain takes 6 arguments");
      return nullptr;
    }
    const bool is_world = arguments[0] == Py_None;
    const auto dtype = plain_dtype_of(arguments[1]);
    const auto op = parse_op(arguments[2]);
    if ((is_world && !is_initialized()) || !dtype || !op) Py_RETURN_NONE;
    if (!PyUnicode_Check(arguments[4]) || !PyUnicode_Check(arguments[5])) Py_RETURN_NONE;
    const auto in = py::reinterpret_borrow<py::array>(arguments[1]);
    auto out = py::reinterpret_borrow<py::array>(arguments[3]);
    if (out.is_none()) {
      out = new_result(in.dtype(), {in.shape(), in.shape() + in.ndim()});
    } else if (!can_be_result(out, in, *dtype)) {
      Py_RETURN_NONE;
    }
    const CallLabel label{view_of(arguments[4]), view_of(arguments[5]), &user_line};
    const Call call{.kind = CollectiveKind::allreduce,
                    .in = in.data(),
                    .out = out.mutable_data(),
                    .count = count_of(in),
                    .dtype = *dtype,
                    .op = *op,
                    .shape = packed_shape_of(in)};
    if (is_world) {
      run(*runtime().world(), call, label);
    } else {
      run(*py::cast<std::shared_ptr<Group>>(py::handle(arguments[0])), call, label);
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
  py::module_::import("ml_dtypes");  // makes numpy know bfloat16
  descriptors();                     // looks up numpy, which is not for the middle of a call
  op_names();
  if (PyModule_AddFunctions(module.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace tnt::comm::bindings
