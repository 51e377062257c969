#pragma once

#include <gtest/gtest.h>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm::tests {

/// What a call fails with. If it does not, the test fails, and the kind is none of those that are.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind{}, "no error"};
}

}  // namespace tnt::comm::tests
