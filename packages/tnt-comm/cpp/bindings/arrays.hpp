#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/array_shape.hpp"
#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/base/recycled_memory.hpp"

namespace tnt::comm::bindings {

/// Keeps memory as long as arrays refer to it, views of them included.
inline pybind11::capsule owner_of(std::unique_ptr<RecycledMemory> memory) {
  return {memory.release(), [](void* owned) { delete static_cast<RecycledMemory*>(owned); }};
}

/// A new C-contiguous array of arbitrary values, for a result.
inline pybind11::array new_result(const pybind11::dtype& dtype,
                                  std::vector<pybind11::ssize_t> shape) {
  auto num_bytes = static_cast<std::size_t>(dtype.itemsize());
  for (const pybind11::ssize_t length : shape) num_bytes *= static_cast<std::size_t>(length);
  if (num_bytes < RecycledMemory::kSmallestKeptBytes) return {dtype, std::move(shape)};
  auto memory = std::make_unique<RecycledMemory>(num_bytes);
  const void* data = memory->data();
  return {dtype, std::move(shape), data, owner_of(std::move(memory))};
}

/// Cuts memory into arrays of bytes that share and keep it. No copy.
inline pybind11::list views_of(RecycledMemory&& memory, const std::vector<std::size_t>& ends) {
  auto owned = std::make_unique<RecycledMemory>(std::move(memory));
  const auto* data = reinterpret_cast<const std::uint8_t*>(owned->data());
  const pybind11::capsule owner = owner_of(std::move(owned));
  pybind11::list views;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    views.append(pybind11::array_t<std::uint8_t>(static_cast<pybind11::ssize_t>(end - begin),
                                                 data + begin, owner));
    begin = end;
  }
  return views;
}

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

}  // namespace tnt::comm::bindings
