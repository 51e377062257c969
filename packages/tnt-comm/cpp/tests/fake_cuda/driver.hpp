#pragma once

#include <cstddef>

#include "tnt/comm/device/driver_api.hpp"

// The functions of the stand-in, under the names that libcuda.so.1 has them.

#define FAKE_CUDA_API extern "C" __attribute__((visibility("default"))) tnt::comm::cuda::Result

FAKE_CUDA_API cuInit(unsigned flags);
FAKE_CUDA_API cuDriverGetVersion(int* version);
FAKE_CUDA_API cuGetErrorName(tnt::comm::cuda::Result result, const char** name);
FAKE_CUDA_API cuGetErrorString(tnt::comm::cuda::Result result, const char** words);
FAKE_CUDA_API cuDeviceGetCount(int* count);
FAKE_CUDA_API cuDeviceGet(tnt::comm::cuda::DeviceNumber* device, int ordinal);
FAKE_CUDA_API cuDeviceGetName(char* name, int room, tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDeviceGetUuid_v2(tnt::comm::cuda::Uuid* uuid, tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDeviceTotalMem_v2(std::size_t* num_bytes, tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDeviceGetAttribute(int* value, int attribute, tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDeviceGetPCIBusId(char* address, int room, tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDeviceGetByPCIBusId(tnt::comm::cuda::DeviceNumber* device, const char* address);
FAKE_CUDA_API cuDeviceCanAccessPeer(int* can, tnt::comm::cuda::DeviceNumber device,
                                    tnt::comm::cuda::DeviceNumber peer);
FAKE_CUDA_API cuDevicePrimaryCtxRetain(tnt::comm::cuda::Context* context,
                                       tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuDevicePrimaryCtxRelease_v2(tnt::comm::cuda::DeviceNumber device);
FAKE_CUDA_API cuCtxPushCurrent_v2(tnt::comm::cuda::Context context);
FAKE_CUDA_API cuCtxPopCurrent_v2(tnt::comm::cuda::Context* context);
FAKE_CUDA_API cuCtxRecordEvent(tnt::comm::cuda::Context of, tnt::comm::cuda::Event event);
FAKE_CUDA_API cuCtxWaitEvent(tnt::comm::cuda::Context of, tnt::comm::cuda::Event event);
FAKE_CUDA_API cuMemAlloc_v2(tnt::comm::cuda::Pointer* pointer, std::size_t num_bytes);
FAKE_CUDA_API cuMemFree_v2(tnt::comm::cuda::Pointer pointer);
FAKE_CUDA_API cuIpcGetMemHandle(tnt::comm::cuda::IpcMemory* handle,
                                tnt::comm::cuda::Pointer pointer);
FAKE_CUDA_API cuIpcOpenMemHandle_v2(tnt::comm::cuda::Pointer* pointer,
                                    tnt::comm::cuda::IpcMemory handle, unsigned flags);
FAKE_CUDA_API cuIpcCloseMemHandle(tnt::comm::cuda::Pointer pointer);
FAKE_CUDA_API cuMemHostRegister_v2(void* begin, std::size_t num_bytes, unsigned);
FAKE_CUDA_API cuMemHostUnregister(void* begin);
FAKE_CUDA_API cuMemsetD8Async(tnt::comm::cuda::Pointer to, unsigned char value,
                              std::size_t num_bytes, tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuMemcpyDtoDAsync_v2(tnt::comm::cuda::Pointer to, tnt::comm::cuda::Pointer from,
                                   std::size_t num_bytes, tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuMemcpyDtoHAsync_v2(void* to, tnt::comm::cuda::Pointer from, std::size_t num_bytes,
                                   tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuMemcpyHtoDAsync_v2(tnt::comm::cuda::Pointer to, const void* from,
                                   std::size_t num_bytes, tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuStreamCreate(tnt::comm::cuda::Stream* stream, unsigned flags);
FAKE_CUDA_API cuStreamDestroy_v2(tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuStreamQuery(tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuStreamWaitEvent(tnt::comm::cuda::Stream stream, tnt::comm::cuda::Event event,
                                unsigned flags);
FAKE_CUDA_API cuLaunchHostFunc(tnt::comm::cuda::Stream stream, void (*function)(void*),
                               void* argument);
FAKE_CUDA_API cuEventCreate(tnt::comm::cuda::Event* event, unsigned);
FAKE_CUDA_API cuEventDestroy_v2(tnt::comm::cuda::Event event);
FAKE_CUDA_API cuEventRecord(tnt::comm::cuda::Event event, tnt::comm::cuda::Stream stream);
FAKE_CUDA_API cuEventQuery(tnt::comm::cuda::Event event);
FAKE_CUDA_API cuModuleLoadData(tnt::comm::cuda::Module* module, const void* image);
FAKE_CUDA_API cuModuleUnload(tnt::comm::cuda::Module module);
FAKE_CUDA_API cuModuleGetFunction(tnt::comm::cuda::Kernel* kernel, tnt::comm::cuda::Module module,
                                  const char* name);
FAKE_CUDA_API cuLaunchKernel(tnt::comm::cuda::Kernel kernel, unsigned grid_x, unsigned grid_y,
                             unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned, tnt::comm::cuda::Stream stream, void** arguments,
                             void** extra);
