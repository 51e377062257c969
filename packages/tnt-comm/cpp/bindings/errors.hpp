#pragma once

#include "tnt/comm/base/error.hpp"

namespace tnt::comm::bindings {

/// Sets the Python exception for an error of the library. With the GIL.
void set_python_error(const Error& error);

}  // namespace tnt::comm::bindings
