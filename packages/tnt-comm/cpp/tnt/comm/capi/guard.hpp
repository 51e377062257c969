#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <string_view>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

/// The calling thread's last error message. It has its memory from the begin,
/// since an error may be that there is none.
class LastError {
 public:
  const char* text() const { return text_.data(); }

  void set(const char* text) {
    const std::string_view beginning = first_bytes(text, text_.size() - 1);
    std::memcpy(text_.data(), beginning.data(), beginning.size());
    text_[beginning.size()] = '\0';
  }

 private:
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
    last_error().set(error.what());
    return static_cast<tnt_comm_status>(error.kind());
  } catch (const std::exception& error) {
    last_error().set(error.what());
  } catch (...) {
    last_error().set("An unknown exception was thrown.");
  }
  return TNT_COMM_ERROR;
}

}  // namespace tnt::comm
