#pragma once

#include <exception>
#include <new>
#include <string>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

/// The calling thread's last error message.
inline std::string& last_error() {
  thread_local std::string message;
  return message;
}

/// Runs a function and turns what it throws into a status and a message: no
/// exception crosses the C interface.
template <typename Function>
tnt_comm_status guard(Function&& function) noexcept {
  try {
    function();
    return TNT_COMM_OK;
  } catch (...) {
    const Error error = Error::current();
    last_error() = error.what();
    return static_cast<tnt_comm_status>(error.kind());
  }
}

}  // namespace tnt::comm
