#pragma once

#include <cstddef>

#include "tnt/comm/device/driver_api.hpp"

// The functions of the stand-in, under the names that libcuda.so.1 has them.

#define FAKE_CUDA_API extern "C" __attribute__((visibility("default"))) tnt::comm::cuda::Result

namespace tnt::comm::tests::fake_cuda {

cuda::Functions driver_functions();

void apply_number_of_devices(int num_devices);
void apply_reach(int from, unsigned reachable);
void apply_version(int version);
void apply_seed(unsigned seed);
void apply_failure(const char* function, int number, cuda::Result result);

/// Ends all streams and forgets everything.
void reset_driver();

std::size_t num_objects_left();

}  // namespace tnt::comm::tests::fake_cuda
