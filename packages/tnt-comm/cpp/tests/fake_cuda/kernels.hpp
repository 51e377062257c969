#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::tests::fake_cuda {

/// Where memory of a GPU is; null if its kernels cannot use it.
using Translate = std::function<std::byte*(cuda::Pointer, std::size_t num_bytes)>;

/// A kernel of kernels.cu: what it does with such arguments, which lie at `arguments`. Nothing if a
/// GPU would find an address that is not its own, or not aligned.
using KernelFunction = std::optional<std::function<void()>> (*)(const void* arguments,
                                                                const Translate& translate);

/// Null for an unknown name.
const KernelFunction* find_kernel(const std::string& name);

}  // namespace tnt::comm::tests::fake_cuda
