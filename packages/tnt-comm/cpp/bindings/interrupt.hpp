#pragma once

#include <pybind11/pybind11.h>

#include "tnt/comm/group/wait.hpp"

namespace tnt::comm::bindings {

/// Lets Ctrl-C end a wait. To be called without the GIL.
inline InterruptCheck python_signals() {
  return [] {
    const pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  };
}

}  // namespace tnt::comm::bindings
