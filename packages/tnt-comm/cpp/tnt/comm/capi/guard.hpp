#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <string_view>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

/// Status and message of the calling thread's last error. It has its memory from the begin,
/// since an error may be that there is none.
class LastError {
 public:
  const char* text() const { return text_.data(); }
  tnt_comm_status status() const { return status_; }

  tnt_comm_status set(tnt_comm_status status, const char* text) {
    status_ = status;
    const std::string_view beginning = first_bytes(text, text_.size() - 1);
    std::memcpy(text_.data(), beginning.data(), beginning.size());
    text_[beginning.size()] = '\0';
    return status;
  }

 private:
  tnt_comm_status status_ = TNT_COMM_OK;
  std::array<char, 4096> text_{};
};

inline LastError& last_error() {
  thread_local LastError message;
  return message;
}

/// Runs a function and turns what it throws into a status and a message: no
/// exception crosses the C interface.
template <typename Function>
tnt_comm_status guard(Function&& function) noexcept {
  try {
    function();
    return TNT_COMM_OK;
  } catch (const Error& error) {
    return last_error().set(static_cast<tnt_comm_status>(error.kind()), error.what());
  } catch (const std::exception& error) {
    return last_error().set(TNT_COMM_ERROR, error.what());
  } catch (...) {
    return last_error().set(TNT_COMM_ERROR, "An unknown exception was thrown.");
  }
}

}  // namespace tnt::comm
