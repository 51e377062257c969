// TntAllreduce: the tensors of all ranks, combined element by element, at once.
//
// It waits for the other ranks, in a thread of TensorFlow: `after` is the token of what must come
// before, so that all ranks come to it in the same order. Nothing is planned: it is for tensors
// whose size is known when the graph runs, and for operations other than sums.
#include "tnt/keras/call_label.hpp"
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

tnt_comm_dtype comm_dtype_of(TF_DataType dtype) {
  switch (dtype) {
    case TF_HALF:
      return TNT_COMM_FLOAT16;
    case TF_BFLOAT16:
      return TNT_COMM_BFLOAT16;
    case TF_FLOAT:
      return TNT_COMM_FLOAT32;
    case TF_DOUBLE:
      return TNT_COMM_FLOAT64;
    case TF_INT8:
      return TNT_COMM_INT8;
    case TF_INT16:
      return TNT_COMM_INT16;
    case TF_INT32:
      return TNT_COMM_INT32;
    case TF_INT64:
      return TNT_COMM_INT64;
    case TF_UINT8:
      return TNT_COMM_UINT8;
    case TF_BOOL:
      return TNT_COMM_BOOL;
    default:
      throw KernelError(TF_INVALID_ARGUMENT, "tensors of type number " + std::to_string(dtype) +
                                                 " cannot be combined over ranks");
  }
}

class Allreduce {
 public:
  explicit Allreduce(TF_OpKernelConstruction* context)
      : op_(static_cast<tnt_comm_op>(int_attribute(context, "op"))), label_(context) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr result;
    const bool is_same = reuse_or_allocate_output(context, kTensorOutput, result);
    const TensorPtr value = is_same ? nullptr : input(context, 0);
    void* out = TF_TensorData(result.get());
    const void* in = is_same ? out : TF_TensorData(value.get());
    tnt_call call{};
    call.kind = TNT_COMM_ALLREDUCE;
    call.in = in;
    call.out = out;
    call.count = num_elements(result.get());
    call.dtype = comm_dtype_of(TF_TensorType(result.get()));
    call.op = op_;
    label_.run(result.get(), 0,
               [&] { check(comm_library().group_run(TNT_GROUP_WORLD, &call, 0)); });
    output_token(context);
  }

 private:
  tnt_comm_op op_;
  CallLabel label_;
};

}  // namespace

void register_allreduce_op() {
  register_stateful_op("TntAllreduce", {"value: T", "after: int32"}, {"token: int32", "result: T"},
                       {"T: type", "op: int", CallLabel::kLabel, CallLabel::kCaller});
  register_kernel<Allreduce>("TntAllreduce");
}

}  // namespace tnt::keras
