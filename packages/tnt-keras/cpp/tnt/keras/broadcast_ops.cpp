// TntStartBroadcast, TntFinishBroadcast and TntBroadcast: the tensor of rank 0.
//
// Other ranks bring a tensor of the same dtype, which is not looked at: its shape may be another
// one. Any dtype but resource and variant. Start and Finish as for the rows of a gather;
// TntBroadcast does both. The gatherer is one, since others do not know the size: all but rank 0
// send nothing.
#include "tnt/keras/call_label.hpp"
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"
#include "tnt/keras/packed_tensor.hpp"

namespace tnt::keras {
namespace {

class Broadcaster {
 public:
  explicit Broadcaster(TF_OpKernelConstruction* context)
      : gatherer_(int_attribute(context, "gatherer")), label_(context) {
    int32_t rank = 0;
    check(comm_library().rank(&rank));
    is_root_ = rank == 0;
  }

  void start(const TF_Tensor* value) const {
    const std::vector<std::byte> packed = is_root_ ? pack(value) : std::vector<std::byte>();
    label_.run(value, TF_NumDims(value), [&] {
      check(comm_library().gatherer_start(gatherer_, packed.data(), packed.size()));
    });
  }

  // Waits, and makes the tensor of rank 0 the output.
  void finish(TF_OpKernelContext* context, TF_DataType dtype) const {
    uint64_t num_bytes = 0;
    label_.wait([&] { check(comm_library().gatherer_wait(gatherer_, nullptr, &num_bytes)); });
    std::vector<std::byte> bytes(num_bytes);
    check(comm_library().gatherer_finish(gatherer_, bytes.data()));
    const PackedTensor packed(bytes, dtype);
    TensorPtr value = allocate_output(context, kTensorOutput, dtype, packed.dims());
    packed.copy_to(value.get(), 0);
  }

 private:
  int64_t gatherer_;
  CallLabel label_;
  bool is_root_ = false;
};

class StartBroadcast {
 public:
  explicit StartBroadcast(TF_OpKernelConstruction* context) : broadcaster_(context) {}

  void compute(TF_OpKernelContext* context) const {
    broadcaster_.start(input(context, 0).get());
    output_token(context);
  }

 private:
  Broadcaster broadcaster_;
};

class FinishBroadcast {
 public:
  explicit FinishBroadcast(TF_OpKernelConstruction* context) : broadcaster_(context) {}

  void compute(TF_OpKernelContext* context) const {
    broadcaster_.finish(context, TF_TensorType(input(context, 0).get()));
    output_token(context);
  }

 private:
  Broadcaster broadcaster_;
};

class BlockingBroadcast {
 public:
  explicit BlockingBroadcast(TF_OpKernelConstruction* context) : broadcaster_(context) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr value = input(context, 0);
    broadcaster_.start(value.get());
    broadcaster_.finish(context, TF_TensorType(value.get()));
    output_token(context);
  }

 private:
  Broadcaster broadcaster_;
};

}  // namespace

void register_broadcast_ops() {
  const std::vector<const char*> attributes = {"T: type", "gatherer: int", CallLabel::kLabel,
                                               CallLabel::kCaller};
  const std::vector<const char*> outputs = {"token: int32", "of_rank_0: T"};
  // `presence` only keeps TensorFlow from computing the broadcast of a constant in advance.
  register_op("TntStartBroadcast", {"value: T", "presence: double"}, {"token: int32"}, attributes);
  register_op("TntFinishBroadcast", {"value: T", "barrier: int32"}, outputs, attributes);
  register_stateful_op("TntBroadcast", {"value: T", "after: int32"}, outputs, attributes);
  register_kernel<StartBroadcast>("TntStartBroadcast");
  register_kernel<FinishBroadcast>("TntFinishBroadcast");
  register_kernel<BlockingBroadcast>("TntBroadcast");
}

}  // namespace tnt::keras
