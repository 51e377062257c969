// TntCombine: tensors of this process, combined as those of as many neighbouring ranks would be.
//
// tnt-comm does so, in its order and with its arithmetic. So what a process combines of its lanes,
// and then with other processes, has the bits of what as many processes with one lane each combine.
//
// TntFence: the tensor that it is given. TensorFlow optimises nothing past it and knows no shape of
// it, as of what comes from an exchange: else what follows in a process that holds all lanes would
// become other operations than in one that does not.
//
// TntLaneInput: the same of what lanes read, whose shape is known.
//
// TntFirst: the first of some tensors, all of which are read: no lane is another one's exception.
#include <vector>

#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

class Combine {
 public:
  explicit Combine(TF_OpKernelConstruction* context)
      : op_(static_cast<tnt_comm_op>(int_attribute(context, "op"))),
        num_tensors_(static_cast<int>(int_attribute(context, "N"))) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr result;
    const bool is_first = reuse_or_allocate_output(context, 0, result);
    std::vector<TensorPtr> tensors;
    std::vector<const void*> arrays;
    if (is_first) arrays.push_back(TF_TensorData(result.get()));
    for (int i = static_cast<int>(arrays.size()); i < num_tensors_; ++i) {
      tensors.push_back(input(context, i));
      require_shape_of(result.get(), tensors.back().get());
      arrays.push_back(TF_TensorData(tensors.back().get()));
    }
    check(comm_library().combine(arrays.data(), num_tensors_, TF_TensorData(result.get()),
                                 num_elements(result.get()),
                                 comm_dtype_of(TF_TensorType(result.get())), op_));
  }

 private:
  static void require_shape_of(const TF_Tensor* first, const TF_Tensor* other) {
    if (shape(first) == shape(other)) return;
    throw KernelError(TF_INVALID_ARGUMENT, "tensors of different shapes cannot be combined");
  }

  tnt_comm_op op_;
  int num_tensors_;
};

class Fence {
 public:
  explicit Fence(TF_OpKernelConstruction*) {}

  void compute(TF_OpKernelContext* context) const {
    set_output(context, 0, input(context, 0).get());
  }
};

}  // namespace

void register_combine_ops() {
  register_op("TntCombine", {"values: N * T"}, {"result: T"},
              {"T: type", "N: int >= 1", "op: int"});
  register_kernel<Combine>("TntCombine");
  register_op("TntFence", {"value: T"}, {"result: T"}, {"T: type"});
  register_kernel<Fence>("TntFence");
  register_op_of_same_shape("TntLaneInput", {"value: T"}, {"result: T"}, {"T: type"});
  register_kernel<Fence>("TntLaneInput");
  register_op("TntFirst", {"values: N * T"}, {"result: T"}, {"T: type", "N: int >= 1"});
  register_kernel<Fence>("TntFirst");
}

}  // namespace tnt::keras
