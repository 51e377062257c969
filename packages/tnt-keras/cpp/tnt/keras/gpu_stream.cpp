#include "tnt/keras/gpu_stream.hpp"

#include <dlfcn.h>

namespace tnt::keras {
namespace {

// TF_OpKernelContext is tensorflow::OpKernelContext, as TensorFlow's own C interface casts it.
// const Eigen::GpuDevice& OpKernelContext::eigen_device<Eigen::GpuDevice>() const
constexpr const char* kGpuDevice =
    "_ZNK10tensorflow15OpKernelContext12eigen_deviceIN5Eigen9GpuDeviceEEERKT_v";
// const gpuStream_t& EigenGpuStreamDevice::stream() const
constexpr const char* kStream = "_ZNK10tensorflow20EigenGpuStreamDevice6streamEv";

struct StreamFunctions {
  // A GpuDevice begins with the pointer to its stream device.
  const void* const* (*gpu_device)(const void* context) = nullptr;
  void* const* (*stream)(const void* stream_device) = nullptr;
};

template <typename Function>
void find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const StreamFunctions& stream_functions() {
  static const StreamFunctions functions = [] {
    StreamFunctions found;
    find(kGpuDevice, found.gpu_device);
    find(kStream, found.stream);
    return found;
  }();
  return functions;
}

}  // namespace

bool has_gpu_stream() {
  const StreamFunctions& functions = stream_functions();
  return functions.gpu_device != nullptr && functions.stream != nullptr;
}

void* gpu_stream(TF_OpKernelContext* context) {
  if (!has_gpu_stream()) return nullptr;
  const StreamFunctions& functions = stream_functions();
  return *functions.stream(*functions.gpu_device(context));
}

}  // namespace tnt::keras

/// Whether operations on GPUs know their stream.
extern "C" __attribute__((visibility("default"))) bool tnt_keras_has_gpu_stream() {
  return tnt::keras::has_gpu_stream();
}
