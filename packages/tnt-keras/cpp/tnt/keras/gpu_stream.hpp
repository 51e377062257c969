// The stream in which TensorFlow's operations on a GPU run.
#pragma once

#include "tnt/keras/tensorflow_c_api.h"

namespace tnt::keras {

/// Whether this TensorFlow exports the two functions by which gpu_stream() finds a stream.
bool has_gpu_stream();

/// The CUstream of an operation on a GPU; null if TensorFlow does not tell it, which for tnt-comm
/// stands for all streams of the GPU.
///
/// The C interface tells a stream of pluggable devices only (TF_GetStream), not of the GPUs that
/// TensorFlow itself knows. So this calls two member functions of its C++ classes, which all
/// supported versions export as ordinary symbols: neither headers nor a build per version are
/// needed, and a version without them is noticed.
void* gpu_stream(TF_OpKernelContext* context);

}  // namespace tnt::keras
