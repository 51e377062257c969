#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tnt::comm::bindings {

/// Cuts a buffer into arrays of bytes that share and keep it. No copy.
inline pybind11::list views_of(std::vector<std::byte>&& buffer,
                               const std::vector<std::size_t>& ends) {
  auto* owned = new std::vector<std::byte>(std::move(buffer));
  const pybind11::capsule owner(
      owned, [](void* memory) { delete static_cast<std::vector<std::byte>*>(memory); });
  pybind11::list views;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    views.append(pybind11::array_t<std::uint8_t>(
        static_cast<pybind11::ssize_t>(end - begin),
        reinterpret_cast<const std::uint8_t*>(owned->data()) + begin, owner));
    begin = end;
  }
  return views;
}

}  // namespace tnt::comm::bindings
