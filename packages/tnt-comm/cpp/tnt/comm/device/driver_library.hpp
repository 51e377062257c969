#pragma once

#include <string>

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::cuda {

/// The driver of this process' GPUs, which stays open until the process ends.
struct Driver {
  Functions functions;
  int version = 0;                ///< 13000 is CUDA 13.0
  double release_limit_s = 10.0;  ///< how long a destructor waits for a GPU
};

/// The driver, opened and initialised by the first call that can: TNT_CUDA_LIBRARY, else the
/// system's libcuda.so.1. Null if there is none, or no GPU, for which `reason` is one sentence with
/// a remedy, if there is one. UsageError for a malformed variable.
const Driver* find_driver(std::string& reason);

/// For tests: what find_driver() initialises and gives from now on, instead of a library; null ends
/// that. Nothing of this room may be alive.
void substitute_driver(Driver* driver);

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string meaning_of(const Functions& driver, Result result);

}  // namespace tnt::comm::cuda
