#pragma once

#include <cstddef>

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::tests::fake_cuda {

// All of them reach each other; `first_device` are before them that the process does not see.
void apply_number_of_devices(int num_devices, int first_device);
void apply_reach(int from, unsigned reachable);
void apply_version(int version);
void apply_seed(unsigned seed);
void apply_failure(const char* function, int number, cuda::Result result);

/// Ends all streams and forgets everything.
void reset_driver();

std::size_t num_objects_left();
std::size_t num_kept();

}  // namespace tnt::comm::tests::fake_cuda
