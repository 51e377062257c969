#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

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

}  // namespace tnt::comm::bindings
