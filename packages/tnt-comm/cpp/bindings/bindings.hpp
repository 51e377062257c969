#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python_lock.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm::bindings {

// One function per file; module.cpp calls them.
void bind_group(pybind11::module_& module);
void bind_allreduce(pybind11::module_& module);
void bind_reducer(pybind11::module_& module);
void bind_devices(pybind11::module_& module);

/// Joins the job if it is not yet. With the GIL, which it releases meanwhile.
void ensure_joined();

/// Sets the Python exception for an error of the library. With the GIL.
void set_python_error(const Error& error);
void set_python_error(const StandardError& error);

/// Lets Ctrl-C end a wait. To be called without the GIL.
///
/// Python handles signals in the main thread only, so other threads do not
/// even ask: taking the GIL while the interpreter ends would end the thread.
inline InterruptCheck python_signals() {
  if (::syscall(SYS_gettid) != ::getpid()) return {};
  return [] {
    const Locked locked;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  };
}

/// For calls that wait for other ranks without saying how long: without the GIL, ended by Ctrl-C.
struct InterruptibleCall {
  InterruptibleCall() : scope(python_signals()) {}

  Unlocked unlocked;
  InterruptScope scope;
};

/// File and line of the nearest Python code outside of this package that led to this thread's call,
/// such as "train.py:31"; "" if there is none. With or without the GIL. Takes a microsecond.
std::string user_line();

inline std::size_t count_of(const pybind11::array& array) {
  return static_cast<std::size_t>(array.size());
}

/// For other ranks to compare (see pack_shape).
inline std::uint64_t packed_shape_of(const pybind11::array& array) {
  return pack_shape(array.shape(), static_cast<std::size_t>(array.ndim()));
}

/// Keeps memory as long as arrays refer to it, views of them included.
template <typename Memory>
pybind11::capsule owner_of(std::unique_ptr<Memory> memory, const char* name = nullptr) {
  return {memory.release(), name, [](void* owned) { delete static_cast<Memory*>(owned); }};
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

}  // namespace tnt::comm::bindings
