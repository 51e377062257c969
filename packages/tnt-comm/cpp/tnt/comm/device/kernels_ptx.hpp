#pragma once

namespace tnt::comm::device {

/// kernels.ptx, which the driver compiles for the GPU that it finds.
extern const char* const kKernelsPtx;

}  // namespace tnt::comm::device
