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
