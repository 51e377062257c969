#include "tnt/keras/kernel.hpp"

namespace tnt::keras {
namespace {

StatusPtr new_status() { return StatusPtr(TF_NewStatus()); }

StatusPtr status_of(const std::exception& error) {
  const auto* kernel_error = dynamic_cast<const KernelError*>(&error);
  StatusPtr status = new_status();
  TF_SetStatus(status.get(), kernel_error ? kernel_error->code() : TF_INTERNAL, error.what());
  return status;
}

// How a failure of tnt-comm appears in TensorFlow: the nearest status, and the name of the error
// that tnt-comm raises in Python, which a log is searched for.
struct Failure {
  TF_Code code;
  const char* name;
};

Failure failure_of(tnt_comm_status status) {
  switch (status) {
    case TNT_COMM_OK:
      return {TF_OK, ""};
    case TNT_COMM_USAGE:
      return {TF_INVALID_ARGUMENT, "UsageError"};
    case TNT_COMM_ERROR:
      return {TF_INTERNAL, "CommError"};
    case TNT_COMM_TIMEOUT:
      return {TF_DEADLINE_EXCEEDED, "CommTimeoutError"};
    case TNT_COMM_PEER_LOST:
      return {TF_UNAVAILABLE, "PeerLostError"};
    case TNT_COMM_MISMATCH:
      return {TF_ABORTED, "MismatchError"};
  }
  return {TF_INTERNAL, "unknown failure"};
}

void unknown_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeInferenceContextSetUnknownShape(context, status);
}

void shape_of_input(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(context, 0, shape, status);
  if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  TF_DeleteShapeHandle(shape);
}

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);

void define_op(const char* name, const std::vector<const char*>& inputs,
               const std::vector<const char*>& outputs, const std::vector<const char*>& attributes,
               bool is_stateful, ShapeFunction shape_of_output = unknown_shape) {
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(name);
  for (const char* spec : attributes) TF_OpDefinitionBuilderAddAttr(builder, spec);
  for (const char* spec : inputs) TF_OpDefinitionBuilderAddInput(builder, spec);
  for (const char* spec : outputs) TF_OpDefinitionBuilderAddOutput(builder, spec);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, shape_of_output);
  if (is_stateful) TF_OpDefinitionBuilderSetIsStateful(builder, true);  // false does the same
  StatusPtr status = new_status();
  TF_RegisterOpDefinition(builder, status.get());
  check(status.get());
}

}  // namespace

void check(const TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) throw KernelError(TF_GetCode(status), TF_Message(status));
}

void check(tnt_comm_status status) {
  if (status == TNT_COMM_OK) return;
  const Failure failure = failure_of(status);
  throw KernelError(failure.code, std::string(failure.name) + ": " + comm_library().last_error());
}

TensorPtr input(TF_OpKernelContext* context, int index) {
  StatusPtr status = new_status();
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context, index, &tensor, status.get());
  check(status.get());
  return TensorPtr(tensor);
}

std::vector<int64_t> shape(const TF_Tensor* tensor) {
  std::vector<int64_t> dims;
  for (int i = 0; i < TF_NumDims(tensor); ++i) dims.push_back(TF_Dim(tensor, i));
  return dims;
}

size_t num_elements(const TF_Tensor* tensor) {
  size_t count = 1;
  for (const int64_t size : shape(tensor)) count *= static_cast<size_t>(size);
  return count;
}

size_t bytes_per_row(const TF_Tensor* tensor) {
  size_t num_bytes = TF_DataTypeSize(TF_TensorType(tensor));
  for (int i = 1; i < TF_NumDims(tensor); ++i) num_bytes *= static_cast<size_t>(TF_Dim(tensor, i));
  return num_bytes;
}

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
      throw KernelError(TF_INVALID_ARGUMENT,
                        "tensors of type number " + std::to_string(dtype) + " cannot be combined");
  }
}

TensorPtr allocate_output(TF_OpKernelContext* context, int index, TF_DataType dtype,
                          const std::vector<int64_t>& dims) {
  size_t num_bytes = TF_DataTypeSize(dtype);
  for (int64_t dim : dims) num_bytes *= static_cast<size_t>(dim);
  StatusPtr status = new_status();
  TensorPtr output(TF_AllocateOutput(context, index, dtype, dims.data(),
                                     static_cast<int>(dims.size()), num_bytes, status.get()));
  check(status.get());
  return output;
}

bool reuse_or_allocate_output(TF_OpKernelContext* context, int index, TensorPtr& output) {
  // Our handle of the input would be somebody who reads it.
  const std::vector<int64_t> dims = shape(input(context, 0).get());
  const int candidate = 0;
  int forwarded = -1;
  StatusPtr status = new_status();
  output.reset(TF_ForwardInputOrAllocateOutput(context, &candidate, 1, index, dims.data(),
                                               static_cast<int>(dims.size()), &forwarded,
                                               status.get()));
  check(status.get());
  return forwarded == candidate;
}

void set_output(TF_OpKernelContext* context, int index, const TF_Tensor* tensor) {
  StatusPtr status = new_status();
  TF_SetOutput(context, index, tensor, status.get());
  check(status.get());
}

void output_token(TF_OpKernelContext* context) {
  TensorPtr token = allocate_output(context, 0, TF_INT32, {});
  *static_cast<int32_t*>(TF_TensorData(token.get())) = 0;
}

int64_t int_attribute(TF_OpKernelConstruction* context, const char* name) {
  StatusPtr status = new_status();
  int64_t value = 0;
  TF_OpKernelConstruction_GetAttrInt64(context, name, &value, status.get());
  check(status.get());
  return value;
}

std::string string_attribute(TF_OpKernelConstruction* context, const char* name) {
  StatusPtr status = new_status();
  int32_t list_size = 0;
  int32_t total_size = 0;
  TF_OpKernelConstruction_GetAttrSize(context, name, &list_size, &total_size, status.get());
  check(status.get());
  std::string value(static_cast<size_t>(total_size), '\0');
  TF_OpKernelConstruction_GetAttrString(context, name, value.data(), value.size(), status.get());
  check(status.get());
  return value;
}

void register_op(const char* name, const std::vector<const char*>& inputs,
                 const std::vector<const char*>& outputs,
                 const std::vector<const char*>& attributes) {
  define_op(name, inputs, outputs, attributes, false);
}

void register_op_of_same_shape(const char* name, const std::vector<const char*>& inputs,
                               const std::vector<const char*>& outputs,
                               const std::vector<const char*>& attributes) {
  define_op(name, inputs, outputs, attributes, false, shape_of_input);
}

void register_stateful_op(const char* name, const std::vector<const char*>& inputs,
                          const std::vector<const char*>& outputs,
                          const std::vector<const char*>& attributes) {
  define_op(name, inputs, outputs, attributes, true);
}

void fail(TF_OpKernelContext* context, const std::exception& error) {
  TF_OpKernelContext_Failure(context, status_of(error).get());
}

void fail(TF_OpKernelConstruction* context, const std::exception& error) {
  TF_OpKernelConstruction_Failure(context, status_of(error).get());
}

void register_kernel_functions(const char* op_name, std::optional<TypeConstraint> constraint,
                               const KernelDevice& device,
                               void* (*create)(TF_OpKernelConstruction*),
                               void (*compute)(void*, TF_OpKernelContext*),
                               void (*destroy)(void*)) {
  StatusPtr status = new_status();
  TF_KernelBuilder* builder = TF_NewKernelBuilder(op_name, device.name, create, compute, destroy);
  for (const char* argument : device.of_host) TF_KernelBuilder_HostMemory(builder, argument);
  if (constraint) {
    TF_KernelBuilder_TypeConstraint(builder, constraint->attribute, constraint->dtype,
                                    status.get());
    check(status.get());
  }
  TF_RegisterKernelBuilder(op_name, builder, status.get());
  check(status.get());
}

}  // namespace tnt::keras
