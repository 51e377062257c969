// The blocking allreduce of plain arrays, in one call without objects in
// between. Whatever is not plain gives None, and the caller goes the general
// way; so there is one place, arrays.py, that says what is wrong with arrays.

#include <array>
#include <exception>
#include <new>
#include <optional>

#include "bindings.hpp"
#include "tnt/comm/base/array.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace py = pybind11;

namespace tnt::comm::bindings {
namespace {

/// Looks at numpy arrays without calling numpy, for the path where a hundred
/// nanoseconds count. It knows plain arrays only: of numpy's own class, C
/// contiguous, aligned and of a known dtype. Others are for the general path,
/// which explains what is wrong with them if anything is.
class PlainArrays {
 public:
  PlainArrays() {
    pybind11::module_::import("ml_dtypes");  // makes numpy know bfloat16
    for (std::size_t i = 0; i < kNumDTypes; ++i) {
      const std::string name(name_of(static_cast<DType>(i)));
      // Never released: the interpreter may end before this object.
      descriptors_[i] = pybind11::dtype::from_args(pybind11::str(name)).release().ptr();
    }
    array_type_ = pybind11::detail::npy_api::get().PyArray_Type_;
  }

  /// Whether it is a plain array; its dtype.
  bool is_plain(PyObject* object, DType& dtype) const {
    if (Py_TYPE(object) != array_type_) return false;
    const auto* array = pybind11::detail::array_proxy(object);
    constexpr int kNeeded = pybind11::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                            pybind11::detail::npy_api::NPY_ARRAY_ALIGNED_;
    if ((array->flags & kNeeded) != kNeeded) return false;
    for (std::size_t i = 0; i < kNumDTypes; ++i) {
      if (array->descr != descriptors_[i]) continue;
      dtype = static_cast<DType>(i);
      return true;
    }
    return false;
  }

  /// A new array of the same shape and dtype, for a result.
  static pybind11::array like(PyObject* plain) {
    const auto* array = pybind11::detail::array_proxy(plain);
    std::vector<pybind11::ssize_t> shape(array->dimensions, array->dimensions + array->nd);
    return new_result(pybind11::reinterpret_borrow<pybind11::dtype>(array->descr),
                      std::move(shape));
  }

  static std::byte* data_of(PyObject* plain) {
    return reinterpret_cast<std::byte*>(pybind11::detail::array_proxy(plain)->data);
  }

  static std::size_t count_of(PyObject* plain) {
    const auto* array = pybind11::detail::array_proxy(plain);
    std::size_t count = 1;
    for (int axis = 0; axis < array->nd; ++axis) {
      count *= static_cast<std::size_t>(array->dimensions[axis]);
    }
    return count;
  }

  /// For other ranks to compare (see pack_shape).
  static std::uint64_t packed_shape_of(PyObject* plain) {
    const auto* array = pybind11::detail::array_proxy(plain);
    return pack_shape(array->dimensions, static_cast<std::size_t>(array->nd));
  }

  static bool is_writeable(PyObject* plain) {
    return (pybind11::detail::array_proxy(plain)->flags &
            pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_) != 0;
  }

  static bool have_same_shape(PyObject* one, PyObject* other) {
    const auto* left = pybind11::detail::array_proxy(one);
    const auto* right = pybind11::detail::array_proxy(other);
    if (left->nd != right->nd) return false;
    for (int axis = 0; axis < left->nd; ++axis) {
      if (left->dimensions[axis] != right->dimensions[axis]) return false;
    }
    return true;
  }

 private:
  std::array<PyObject*, kNumDTypes> descriptors_{};
  PyTypeObject* array_type_ = nullptr;
};

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
    OpNames interned{};
    for (std::size_t i = 0; i < kNumReduceOps; ++i) {
      interned[i] = PyUnicode_InternFromString(name_of(static_cast<ReduceOp>(i)).data());
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

void run(Group& group, const Call& call) {
  std::optional<py::gil_scoped_release> unlocked;
  // Releasing the lock would take longer than a quick call.
  if (!group.is_quick(call.count * size_of(call.dtype))) unlocked.emplace();
  const auto request =
      group.allreduce_now(call.in, call.out, call.count, call.dtype, call.op, call.label);
  if (!request) return;
  if (!unlocked) unlocked.emplace();
  request->wait(0, python_signals());
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
