// TntStartReduce and TntFinishReduce: the sum of one tensor over all ranks, in two halves.
//
// Start copies its input, times `scale`, into the tensor's place in a bucket of the reducer and
// returns at once; tnt-comm reduces a bucket in the background as soon as all its tensors are
// there. Finish waits for the bucket and hands the sum to TensorFlow where it lies, in the bucket's
// memory; TensorFlow gives it back when the last user of the tensor is gone. Only if it cannot be
// had there, since it is small or the memory is still in use, it is copied. Finish blocks a thread
// of TensorFlow, so it must not run before all Starts on which *other* ranks may wait: its
// `barrier` input is the sum of the tokens of those Starts. With that, one inter-op thread is
// enough.
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

class StartReduce {
 public:
  explicit StartReduce(TF_OpKernelConstruction* context)
      : reducer_(int_attribute(context, "reducer")), tensor_(int_attribute(context, "tensor_id")) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr value = input(context, 0);
    TensorPtr scale = input(context, 1);
    check(comm_library().reducer_start(reducer_, tensor_, TF_TensorData(value.get()),
                                       *static_cast<const double*>(TF_TensorData(scale.get()))));
    output_token(context);
  }

 private:
  int64_t reducer_;
  int64_t tensor_;
};

class FinishReduce {
 public:
  explicit FinishReduce(TF_OpKernelConstruction* context)
      : reducer_(int_attribute(context, "reducer")), tensor_(int_attribute(context, "tensor_id")) {}

  void compute(TF_OpKernelContext* context) const {
    const void* data = nullptr;
    void* lease = nullptr;
    check(comm_library().reducer_lend(reducer_, tensor_, &data, &lease));
    if (data != nullptr) {
      output_lent(context, data, lease);
    } else {
      TensorPtr sum = reuse_or_allocate(context);
      check(comm_library().reducer_finish(reducer_, tensor_, TF_TensorData(sum.get())));
    }
  }

 private:
  // A tensor over the lent memory. TensorFlow writes only into memory that it allocated itself, and
  // the memory is aligned as it wants, so that nothing is copied.
  static void output_lent(TF_OpKernelContext* context, const void* data, void* lease) {
    TensorPtr value = input(context, 0);
    const std::vector<int64_t> dims = shape(value.get());
    TensorPtr sum(TF_NewTensor(
        TF_TensorType(value.get()), dims.data(), static_cast<int>(dims.size()),
        const_cast<void*>(data), TF_TensorByteSize(value.get()),
        [](void*, size_t, void* argument) { comm_library().reducer_return(argument); }, lease));
    StatusPtr status(TF_NewStatus());
    TF_SetOutput(context, 0, sum.get(), status.get());
    check(status.get());
  }

  // The gradient itself is not needed any more once it is in its bucket, so its memory can hold
  // the sum if nobody else reads it.
  static TensorPtr reuse_or_allocate(TF_OpKernelContext* context) {
    const std::vector<int64_t> dims = shape(input(context, 0).get());
    const int candidate = 0;
    int forwarded = -1;
    StatusPtr status(TF_NewStatus());
    TensorPtr output(TF_ForwardInputOrAllocateOutput(context, &candidate, 1, 0, dims.data(),
                                                     static_cast<int>(dims.size()), &forwarded,
                                                     status.get()));
    check(status.get());
    return output;
  }

  int64_t reducer_;
  int64_t tensor_;
};

}  // namespace

void register_reduce_ops() {
  register_op("TntStartReduce", {"value: T", "scale: double"}, {"token: int32"},
              {"T: type", "reducer: int", "tensor_id: int"});
  register_op("TntFinishReduce", {"value: T", "barrier: int32"}, {"sum: T"},
              {"T: type", "reducer: int", "tensor_id: int"});
  register_kernel<StartReduce>("TntStartReduce");
  register_kernel<FinishReduce>("TntFinishReduce");
}

}  // namespace tnt::keras
