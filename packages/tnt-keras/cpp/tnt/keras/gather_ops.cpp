// TntStartGather, TntFinishGather and TntGather: the rows of all ranks, in rank order.
//
// Ranks may have different numbers of rows (also none), of equal shape otherwise, of any dtype but
// resource and variant. Start hands the rows to the gatherer, none if `presence` is 0, and returns
// at once; Finish waits for all ranks. The rule about `barrier` is that of the reduce operations.
// TntGather does both.
#include <cstring>

#include "tnt/keras/call_label.hpp"
#include "tnt/keras/kernel.hpp"
#include "tnt/keras/ops.hpp"
#include "tnt/keras/packed_tensor.hpp"

namespace tnt::keras {
namespace {

// How rows travel: as the bytes that they are, which are received where they are to be, or packed
// if these would not say how many rows there are. The same on all ranks.
bool are_packed(const TF_Tensor* rows) {
  return TF_TensorType(rows) == TF_STRING || bytes_per_row(rows) == 0;
}

class Gatherer {
 public:
  explicit Gatherer(TF_OpKernelConstruction* context)
      : handle_(int_attribute(context, "gatherer")), label_(context) {}

  void start(const TF_Tensor* rows, bool is_present) const {
    if (TF_NumDims(rows) == 0) throw KernelError(TF_INVALID_ARGUMENT, "a scalar has no rows");
    label_.run(rows, 1, [&] {
      if (are_packed(rows)) {
        const std::vector<std::byte> packed = is_present ? pack(rows) : std::vector<std::byte>();
        check(comm_library().gatherer_start(handle_, packed.data(), packed.size()));
      } else {
        check(comm_library().gatherer_start(handle_, TF_TensorData(rows),
                                            is_present ? TF_TensorByteSize(rows) : 0));
      }
    });
  }

  // Waits, and makes the rows of all ranks the output.
  void finish(TF_OpKernelContext* context, const TF_Tensor* own_rows) const {
    const std::vector<uint64_t> sizes = wait();
    if (are_packed(own_rows)) {
      finish_packed(context, own_rows, sizes);
    } else {
      finish_plain(context, own_rows, sizes);
    }
  }

 private:
  // The bytes of each rank.
  std::vector<uint64_t> wait() const {
    int32_t num_ranks = 0;
    check(comm_library().gatherer_size(handle_, &num_ranks));
    std::vector<uint64_t> sizes(static_cast<size_t>(num_ranks));
    label_.wait([&] { check(comm_library().gatherer_wait(handle_, sizes.data(), nullptr)); });
    return sizes;
  }

  void finish_plain(TF_OpKernelContext* context, const TF_Tensor* own_rows,
                    const std::vector<uint64_t>& sizes) const {
    const uint64_t row_bytes = bytes_per_row(own_rows);
    std::vector<int64_t> dims = shape(own_rows);
    dims[0] = 0;
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      if (sizes[rank] % row_bytes != 0) fail_by_shape(rank, dims);
      dims[0] += static_cast<int64_t>(sizes[rank] / row_bytes);
    }
    TensorPtr all = allocate_output(context, kTensorOutput, TF_TensorType(own_rows), dims);
    check(comm_library().gatherer_finish(handle_, TF_TensorData(all.get())));
  }

  void finish_packed(TF_OpKernelContext* context, const TF_Tensor* own_rows,
                     const std::vector<uint64_t>& sizes) const {
    uint64_t num_bytes = 0;
    for (const uint64_t size : sizes) num_bytes += size;
    std::vector<std::byte> bytes(num_bytes);
    check(comm_library().gatherer_finish(handle_, bytes.data()));
    const TF_DataType dtype = TF_TensorType(own_rows);
    std::vector<int64_t> dims = shape(own_rows);
    dims[0] = 0;
    std::vector<PackedTensor> parts;
    std::span<const std::byte> rest(bytes);
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      if (sizes[rank] == 0) continue;  // a rank that is not present
      const PackedTensor& part = parts.emplace_back(rest.first(sizes[rank]), dtype);
      rest = rest.subspan(sizes[rank]);
      std::vector<int64_t> expected = dims;
      expected[0] = part.dims().empty() ? 0 : part.dims()[0];
      if (part.dims() != expected) fail_by_shape(rank, dims);
      dims[0] += expected[0];
    }
    TensorPtr all = allocate_output(context, kTensorOutput, dtype, dims);
    size_t begin = 0;
    for (const PackedTensor& part : parts) {
      part.copy_to(all.get(), begin);
      begin += part.num_elements();
    }
  }

  [[noreturn]] void fail_by_shape(size_t rank, const std::vector<int64_t>& own) const {
    std::string shape;
    for (size_t i = 1; i < own.size(); ++i) shape += (i > 1 ? ", " : "") + std::to_string(own[i]);
    const std::string of = label_.caller().empty() ? "" : " of " + label_.caller();
    throw KernelError(TF_INVALID_ARGUMENT,
                      "rows" + of + " must have the same shape on all ranks: on this rank it is (" +
                          shape + "), on rank " + std::to_string(rank) + " another one");
  }

  int64_t handle_;
  CallLabel label_;
};

class StartGather {
 public:
  explicit StartGather(TF_OpKernelConstruction* context) : gatherer_(context) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr rows = input(context, 0);
    TensorPtr presence = input(context, 1);
    gatherer_.start(rows.get(), *static_cast<const double*>(TF_TensorData(presence.get())) != 0);
    output_token(context);
  }

 private:
  Gatherer gatherer_;
};

class FinishGather {
 public:
  explicit FinishGather(TF_OpKernelConstruction* context) : gatherer_(context) {}

  void compute(TF_OpKernelContext* context) const {
    gatherer_.finish(context, input(context, 0).get());
    output_token(context);
  }

 private:
  Gatherer gatherer_;
};

class BlockingGather {
 public:
  explicit BlockingGather(TF_OpKernelConstruction* context) : gatherer_(context) {}

  void compute(TF_OpKernelContext* context) const {
    TensorPtr rows = input(context, 0);
    gatherer_.start(rows.get(), true);
    gatherer_.finish(context, rows.get());
    output_token(context);
  }

 private:
  Gatherer gatherer_;
};

}  // namespace

void register_gather_ops() {
  const std::vector<const char*> attributes = {"T: type", "gatherer: int", CallLabel::kLabel,
                                               CallLabel::kCaller};
  const std::vector<const char*> outputs = {"token: int32", "all_rows: T"};
  register_op("TntStartGather", {"rows: T", "presence: double"}, {"token: int32"}, attributes);
  register_op("TntFinishGather", {"rows: T", "barrier: int32"}, outputs, attributes);
  register_stateful_op("TntGather", {"rows: T", "after: int32"}, outputs, attributes);
  register_kernel<StartGather>("TntStartGather");
  register_kernel<FinishGather>("TntFinishGather");
  register_kernel<BlockingGather>("TntGather");
}

}  // namespace tnt::keras
