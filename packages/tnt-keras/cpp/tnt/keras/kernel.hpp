// What all kernels share: owning handles for TensorFlow's objects, and one way to fail.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tnt/keras/comm_library.hpp"
#include "tnt/keras/tensorflow_c_api.h"

namespace tnt::keras {

/// A failure that becomes the status of the operation, hence an exception of `tf.errors`.
class KernelError : public std::runtime_error {
 public:
  KernelError(TF_Code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  TF_Code code() const { return code_; }

 private:
  TF_Code code_;
};

struct StatusDeleter {
  void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
};
struct TensorDeleter {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
};
using StatusPtr = std::unique_ptr<TF_Status, StatusDeleter>;
using TensorPtr = std::unique_ptr<TF_Tensor, TensorDeleter>;

/// Throws if TensorFlow reported a failure.
void check(const TF_Status* status);

/// Throws if tnt-comm reported a failure, with tnt-comm's own sentence.
void check(tnt_comm_status status);

/// The input `index` of the running operation.
TensorPtr input(TF_OpKernelContext* context, int index);

/// Sizes of the dimensions of `tensor`.
std::vector<int64_t> shape(const TF_Tensor* tensor);

/// The number of elements of `tensor`, and the bytes of one of its rows, along the first dimension.
size_t num_elements(const TF_Tensor* tensor);
size_t bytes_per_row(const TF_Tensor* tensor);

/// tnt-comm's name of a type. Throws if it cannot combine elements of that.
tnt_comm_dtype comm_dtype_of(TF_DataType dtype);

/// Allocates output `index`.
TensorPtr allocate_output(TF_OpKernelContext* context, int index, TF_DataType dtype,
                          const std::vector<int64_t>& dims);

/// Gives output `index` the memory of input 0 if nobody else reads that, else memory of its own, of
/// the same shape. Whether it did the former.
bool reuse_or_allocate_output(TF_OpKernelContext* context, int index, TensorPtr& output);

/// Makes `tensor` the output `index`.
void set_output(TF_OpKernelContext* context, int index, const TF_Tensor* tensor);

/// Where operations have their tensor; the token comes first.
constexpr int kTensorOutput = 1;

/// Writes the scalar token 0 to output 0. A token carries no value: it is the edge along which
/// "has started" or "has finished" travels to the operations that must wait for it.
void output_token(TF_OpKernelContext* context);

/// Attribute `name` of the operation that is being built.
int64_t int_attribute(TF_OpKernelConstruction* context, const char* name);
std::string string_attribute(TF_OpKernelConstruction* context, const char* name);

/// The type that an operation must have for a kernel.
struct TypeConstraint {
  const char* attribute;
  TF_DataType dtype;
};

/// Where a kernel computes, and which of its inputs and outputs are in the memory of the host
/// nevertheless.
struct KernelDevice {
  const char* name = "CPU";
  std::vector<const char*> of_host = {};
};

/// Registers a kernel of class `Kernel`, which has a constructor from
/// `TF_OpKernelConstruction*` and a `void compute(TF_OpKernelContext*)`; both may throw.
template <typename Kernel>
void register_kernel(const char* op_name, std::optional<TypeConstraint> constraint = {},
                     const KernelDevice& device = {});

/// Defines an operation. It is deliberately *not* marked stateful: tf.function would chain stateful
/// operations in program order, which would serialise all communication after backpropagation. The
/// price: TensorFlow computes an operation of constant inputs once, when it optimises the graph,
/// and never again. So every operation has an input that is never a constant (see `Step` in
/// Python).
void register_op(const char* name, const std::vector<const char*>& inputs,
                 const std::vector<const char*>& outputs,
                 const std::vector<const char*>& attributes);

/// The same for an operation whose output has the shape of its first input, which TensorFlow then
/// knows; of others it knows none when it optimises a graph.
void register_op_of_same_shape(const char* name, const std::vector<const char*>& inputs,
                               const std::vector<const char*>& outputs,
                               const std::vector<const char*>& attributes);

/// Defines an operation that waits for other ranks by itself. It is stateful: TensorFlow then never
/// drops it, merges it with an equal one, or computes it in advance, also inside of branches and
/// loops, and the branch or loop counts as stateful, too.
void register_stateful_op(const char* name, const std::vector<const char*>& inputs,
                          const std::vector<const char*>& outputs,
                          const std::vector<const char*>& attributes);

// ---------------------------------------------------------------------------------------------

void fail(TF_OpKernelContext* context, const std::exception& error);
void fail(TF_OpKernelConstruction* context, const std::exception& error);
void register_kernel_functions(const char* op_name, std::optional<TypeConstraint> constraint,
                               const KernelDevice& device,
                               void* (*create)(TF_OpKernelConstruction*),
                               void (*compute)(void*, TF_OpKernelContext*), void (*destroy)(void*));

template <typename Kernel>
void register_kernel(const char* op_name, std::optional<TypeConstraint> constraint,
                     const KernelDevice& device) {
  register_kernel_functions(
      op_name, constraint, device,
      [](TF_OpKernelConstruction* context) -> void* {
        try {
          return new Kernel(context);
        } catch (const std::exception& error) {
          fail(context, error);
          return nullptr;
        }
      },
      [](void* kernel, TF_OpKernelContext* context) {
        try {
          static_cast<Kernel*>(kernel)->compute(context);
        } catch (const std::exception& error) {
          fail(context, error);
        }
      },
      [](void* kernel) { delete static_cast<Kernel*>(kernel); });
}

}  // namespace tnt::keras
