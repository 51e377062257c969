// Modules, and the kernels in them.

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fake_cuda/call.hpp"
#include "fake_cuda/driver.hpp"
#include "fake_cuda/kernels.hpp"
#include "fake_cuda/objects.hpp"

using namespace tnt::comm;                    // NOLINT
using namespace tnt::comm::tests::fake_cuda;  // NOLINT

FAKE_CUDA_API cuModuleLoadData(cuda::Module* module, const void* image) {
  Call call("cuModuleLoadData");
  if (call.has_no_context()) return call.result();
  auto text = std::make_unique<std::string>(static_cast<const char*>(image));
  *module = reinterpret_cast<cuda::Module>(text.get());
  const std::lock_guard lock(objects().mutex);
  objects().modules[*module] = std::move(text);
  return cuda::kSuccess;
}

FAKE_CUDA_API cuModuleUnload(cuda::Module module) {
  Call call("cuModuleUnload");
  const std::lock_guard lock(objects().mutex);
  return objects().modules.erase(module) == 0 ? cuda::kInvalidHandle : call.result();
}

FAKE_CUDA_API cuModuleGetFunction(cuda::Kernel* kernel, cuda::Module module, const char* name) {
  Call call("cuModuleGetFunction");
  if (call.has_no_context()) return call.result();
  // As a text of PTX declares it.
  const std::string declaration = std::string(".visible .entry ") + name + "(";
  const auto& image = *reinterpret_cast<const std::string*>(module);
  const KernelFunction* function = find_kernel(name);
  if (function == nullptr || image.find(declaration) == std::string::npos) return cuda::kNotFound;
  *kernel = reinterpret_cast<cuda::Kernel>(const_cast<KernelFunction*>(function));
  return cuda::kSuccess;
}

FAKE_CUDA_API cuLaunchKernel(cuda::Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                             cuda::Stream stream, void** arguments, void** extra) {
  Call call("cuLaunchKernel");
  if (call.has_no_context()) return call.result();
  const bool is_line = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
  if (!is_line || grid_x == 0 || block_x == 0 || block_x > 1024 || extra != nullptr) {
    return cuda::kInvalidValue;
  }
  if (kernel == nullptr || stream == nullptr) return cuda::kInvalidHandle;
  const auto translate = [](cuda::Pointer pointer, std::size_t num_bytes) -> std::byte* {
    const Memory::Place place = objects().memory.find(pointer, num_bytes);
    // That of another device must have been opened by its handle, which makes it reachable.
    const bool is_usable = place.is_opened || place.device == current_context()->ordinal;
    return is_usable ? place.bytes : nullptr;
  };
  const auto work = (*reinterpret_cast<const KernelFunction*>(kernel))(arguments[0], translate);
  if (!work) return cuda::kIllegalAddress;
  stream_of(stream)->push(*work);
  return cuda::kSuccess;
}
