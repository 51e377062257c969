// TntStartGather and TntFinishGather: the rows of all ranks, in rank order, in two halves.
//
// Ranks may have different numbers of rows (also none), of equal shape otherwise. Start hands the
// rows to the gatherer, none if `presence` is 0, and returns at once; Finish waits for all ranks.
// The rule about `barrier` is that of the reduce operations.
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"

namespace tnt::keras {
namespace {

class StartGather {
 public:
  explicit StartGather(TF_OpKernelConstruction* context)
      : gatherer_(int_attribute(context, "gatherer")) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr rows = input(context, 0);
    TensorPtr presence = input(context, 1);
    const bool is_present = *static_cast<const double*>(TF_TensorData(presence.get())) != 0;
    check(comm_library().gatherer_start(gatherer_, TF_TensorData(rows.get()),
                                        is_present ? TF_TensorByteSize(rows.get()) : 0));
    output_token(context);
  }

 private:
  int64_t gatherer_;
};

class FinishGather {
 public:
  explicit FinishGather(TF_OpKernelConstruction* context)
      : gatherer_(int_attribute(context, "gatherer")) {}

  void compute(TF_OpKernelContext* context) const {
    uint64_t num_bytes = 0;
    check(comm_library().gatherer_wait(gatherer_, nullptr, &num_bytes));
    TensorPtr own_rows = input(context, 0);
    const TF_DataType dtype = TF_TensorType(own_rows.get());
    std::vector<int64_t> dims = shape(own_rows.get());
    dims[0] = num_rows(num_bytes, dtype, dims);
    TensorPtr all_rows = allocate_output(context, kTensorOutput, dtype, dims);
    check(comm_library().gatherer_finish(gatherer_, TF_TensorData(all_rows.get())));
    output_token(context);
  }

 private:
  static int64_t num_rows(uint64_t num_bytes, TF_DataType dtype, const std::vector<int64_t>& dims) {
    uint64_t row_bytes = TF_DataTypeSize(dtype);
    for (size_t i = 1; i < dims.size(); ++i) row_bytes *= static_cast<uint64_t>(dims[i]);
    if (row_bytes == 0 || num_bytes % row_bytes != 0) {
      throw KernelError(TF_INVALID_ARGUMENT,
                        "rows of " + std::to_string(row_bytes) +
                            " bytes on this rank do not divide the " + std::to_string(num_bytes) +
                            " bytes gathered from all ranks: rows must have the same, non-empty "
                            "shape on every rank");
    }
    return static_cast<int64_t>(num_bytes / row_bytes);
  }

  int64_t gatherer_;
};

}  // namespace

void register_gather_ops() {
  register_op("TntStartGather", {"rows: T", "presence: double"}, {"token: int32"},
              {"T: type", "gatherer: int"});
  register_op("TntFinishGather", {"rows: T", "barrier: int32"}, {"token: int32", "all_rows: T"},
              {"T: type", "gatherer: int"});
  register_kernel<StartGather>("TntStartGather");
  register_kernel<FinishGather>("TntFinishGather");
}

}  // namespace tnt::keras
