// Kernels of TntStartReduce and TntFinishReduce for tensors on GPUs.
//
// Start packs the tensor on the GPU, in TensorFlow's stream: so its memory may be used again in the
// order of that stream, as TensorFlow's allocator assumes, and nothing has to be held. tnt-comm
// copies or sums a full bucket in streams of its own, while TensorFlow's goes on. Finish waits for
// the other ranks, on the host, so that their failures are errors of the operation, and lets
// TensorFlow's stream copy the sum; it does not wait for the GPU.
#include <array>

#include "tnt/keras/gpu_stream.hpp"
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

class StartReduceOnDevice {
 public:
  explicit StartReduceOnDevice(TF_OpKernelConstruction* context)
      : reducer_(int_attribute(context, "reducer")), tensor_(int_attribute(context, "tensor_id")) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr value = input(context, 0);
    const double scale = *static_cast<const double*>(TF_TensorData(input(context, 1).get()));
    check(comm_library().reducer_start_on_device(reducer_, tensor_, TF_TensorData(value.get()),
                                                 scale, gpu_stream(context)));
    set_output(context, kTensorOutput, value.get());
    output_token(context);
  }

 private:
  int64_t reducer_;
  int64_t tensor_;
};

class FinishReduceOnDevice {
 public:
  explicit FinishReduceOnDevice(TF_OpKernelConstruction* context)
      : reducer_(int_attribute(context, "reducer")), tensor_(int_attribute(context, "tensor_id")) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr sum;
    reuse_or_allocate_output(context, kTensorOutput, sum);
    check(comm_library().reducer_finish_on_device(reducer_, tensor_, TF_TensorData(sum.get()),
                                                  gpu_stream(context)));
    output_token(context);
  }

 private:
  int64_t reducer_;
  int64_t tensor_;
};

}  // namespace

void register_device_reduce_ops() {
  // Those that kernels of tnt-comm sum; others are summed by the host.
  for (const TF_DataType dtype : {TF_HALF, TF_BFLOAT16, TF_FLOAT, TF_DOUBLE}) {
    register_kernel<StartReduceOnDevice>("TntStartReduce", TypeConstraint{"T", dtype},
                                         {"GPU", {"scale", "token"}});
    register_kernel<FinishReduceOnDevice>("TntFinishReduce", TypeConstraint{"T", dtype},
                                          {"GPU", {"barrier", "token"}});
  }
}

}  // namespace tnt::keras
