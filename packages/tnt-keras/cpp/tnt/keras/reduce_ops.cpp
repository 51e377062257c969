// TntStartReduce and TntFinishReduce: the sum of one tensor over all ranks, in two halves.
//
// Start hands its input, times `scale`, to the reducer and returns at once; tnt-comm sums a bucket
// in the background as soon as all its tensors are there. Finish waits for that. Between the two
// goes `pending`, a tensor of the input's shape:
//
//  - Large tensors of ranks on one host are summed where they lie. If nobody else reads the input,
//    its memory becomes that of `pending` and of the sum; else `pending` has memory of its own. The
//    reducer holds on to both tensors until the finish, so that they stay where they are even if
//    TensorFlow gives up the step.
//  - Others are copied into the tensor's place in a bucket, and `pending` is the input. The finish
//    hands the sum to TensorFlow where it lies, in the bucket's memory; TensorFlow gives it back
//    when the last user of the tensor is gone. Only if it cannot be had there, since it is small or
//    the memory is still in use, it is copied.
//
// Finish blocks a thread of TensorFlow, so it must not run before all Starts on which *other* ranks
// may wait: its `barrier` input is the sum of the tokens of those Starts. With that, one inter-op
// thread is enough.
#include <memory>
#include <utility>

#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

/// The tensor of a reducer that an operation is about.
class ReducerTensor {
 public:
  explicit ReducerTensor(TF_OpKernelConstruction* context)
      : reducer_(int_attribute(context, "reducer")), tensor_(int_attribute(context, "tensor_id")) {
    int32_t is_in_place = 0;
    check(comm_library().reducer_is_in_place(reducer_, tensor_, &is_in_place));
    is_in_place_ = is_in_place != 0;
  }

  int64_t reducer() const { return reducer_; }
  int64_t id() const { return tensor_; }
  bool is_in_place() const { return is_in_place_; }

 private:
  int64_t reducer_;
  int64_t tensor_;
  bool is_in_place_ = false;
};

class StartReduce {
 public:
  explicit StartReduce(TF_OpKernelConstruction* context) : tensor_(context) {}

  void compute(TF_OpKernelContext* context) const {
    const double scale = *static_cast<const double*>(TF_TensorData(input(context, 1).get()));
    if (tensor_.is_in_place()) {
      start_in_place(context, scale);
    } else {
      TensorPtr value = input(context, 0);
      const void* data = TF_TensorData(value.get());
      check(comm_library().reducer_start(tensor_.reducer(), tensor_.id(), data, scale));
      set_output(context, kTensorOutput, value.get());
    }
    output_token(context);
  }

 private:
  // What the reducer holds on to.
  struct Tensors {
    TensorPtr value;
    TensorPtr pending;
  };

  void start_in_place(TF_OpKernelContext* context, double scale) const {
    auto held = std::make_unique<Tensors>();
    const bool is_same = reuse_or_allocate_output(context, kTensorOutput, held->pending);
    void* out = TF_TensorData(held->pending.get());
    const void* data = out;
    if (!is_same) {
      held->value = input(context, 0);
      data = TF_TensorData(held->value.get());
    }
    const auto release = [](void* tensors) { delete static_cast<Tensors*>(tensors); };
    check(comm_library().reducer_start_into(tensor_.reducer(), tensor_.id(), data, out, scale,
                                            release, held.release()));
  }

  ReducerTensor tensor_;
};

struct ViewDeleter {
  void operator()(void* view) const { comm_library().reducer_return(view); }
};
/// A sum that tnt-comm lends.
using ViewPtr = std::unique_ptr<void, ViewDeleter>;

class FinishReduce {
 public:
  explicit FinishReduce(TF_OpKernelConstruction* context) : tensor_(context) {}

  void compute(TF_OpKernelContext* context) const {
    if (tensor_.is_in_place()) {
      check(comm_library().reducer_finish(tensor_.reducer(), tensor_.id(), nullptr));
      set_output(context, kTensorOutput, input(context, 0).get());
    } else {
      output_from_bucket(context);
    }
    output_token(context);
  }

 private:
  void output_from_bucket(TF_OpKernelContext* context) const {
    const void* data = nullptr;
    void* lent = nullptr;
    check(comm_library().reducer_lend(tensor_.reducer(), tensor_.id(), &data, &lent));
    if (ViewPtr view(lent); view) {
      output_lent(context, data, std::move(view));
    } else {
      TensorPtr sum;
      reuse_or_allocate_output(context, kTensorOutput, sum);
      void* out = TF_TensorData(sum.get());
      check(comm_library().reducer_finish(tensor_.reducer(), tensor_.id(), out));
    }
  }

  // A tensor over the lent memory. TensorFlow writes only into memory that it allocated itself, and
  // the memory is aligned as it wants, so that nothing is copied.
  static void output_lent(TF_OpKernelContext* context, const void* data, ViewPtr view) {
    TensorPtr pending = input(context, 0);
    const std::vector<int64_t> dims = shape(pending.get());
    TensorPtr sum(TF_NewTensor(
        TF_TensorType(pending.get()), dims.data(), static_cast<int>(dims.size()),
        const_cast<void*>(data), TF_TensorByteSize(pending.get()),
        [](void*, size_t, void* argument) { comm_library().reducer_return(argument); },
        view.release()));
    if (!sum) throw KernelError(TF_INTERNAL, "TensorFlow makes no tensor of a lent sum");
    set_output(context, kTensorOutput, sum.get());
  }

  ReducerTensor tensor_;
};

}  // namespace

void register_reduce_ops() {
  register_op("TntStartReduce", {"value: T", "scale: double"}, {"token: int32", "pending: T"},
              {"T: type", "reducer: int", "tensor_id: int"});
  register_op("TntFinishReduce", {"pending: T", "barrier: int32"}, {"token: int32", "sum: T"},
              {"T: type", "reducer: int", "tensor_id: int"});
  register_kernel<StartReduce>("TntStartReduce");
  register_kernel<FinishReduce>("TntFinishReduce");
}

}  // namespace tnt::keras
