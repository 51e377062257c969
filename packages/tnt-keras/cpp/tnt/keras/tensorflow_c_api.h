/* Our own declarations of the few functions of TensorFlow's C API that the operations use.
 *
 * Nothing of TensorFlow is needed to compile: the functions are found, when the library is loaded,
 * in the TensorFlow that the process has already loaded, so that one binary serves all supported
 * versions. A test compiles these declarations together with the headers of the installed
 * TensorFlow; a difference is a compile error there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TNT_TENSORFLOW_HEADERS_INCLUDED
typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;

/* Values of the enums that we pass or receive; the full enums have more. */
typedef enum TF_Code {
  TF_OK = 0,
  TF_INVALID_ARGUMENT = 3,
  TF_DEADLINE_EXCEEDED = 4,
  TF_ABORTED = 10,
  TF_INTERNAL = 13,
  TF_UNAVAILABLE = 14
} TF_Code;
typedef enum TF_DataType {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_HALF = 19,
  TF_UINT32 = 22,
  TF_UINT64 = 23
} TF_DataType;
#endif

/* Status */
TF_Status* TF_NewStatus(void);
void TF_DeleteStatus(TF_Status* status);
void TF_SetStatus(TF_Status* status, TF_Code code, const char* message);
TF_Code TF_GetCode(const TF_Status* status);
const char* TF_Message(const TF_Status* status);

/* Tensors */
TF_Tensor* TF_NewTensor(TF_DataType dtype, const int64_t* dims, int num_dims, void* data,
                        size_t num_bytes,
                        void (*deallocate)(void* data, size_t num_bytes, void* argument),
                        void* argument);
void TF_DeleteTensor(TF_Tensor* tensor);
TF_DataType TF_TensorType(const TF_Tensor* tensor);
int TF_NumDims(const TF_Tensor* tensor);
int64_t TF_Dim(const TF_Tensor* tensor, int index);
size_t TF_TensorByteSize(const TF_Tensor* tensor);
void* TF_TensorData(const TF_Tensor* tensor);
size_t TF_DataTypeSize(TF_DataType dtype);

/* Definition of operations */
TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char* name);
void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder* builder, const char* spec);
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder* builder, const char* spec);
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder* builder, const char* spec);
void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder* builder,
    void (*function)(TF_ShapeInferenceContext* context, TF_Status* status));
void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext* context, TF_Status* status);
TF_ShapeHandle* TF_NewShapeHandle(void);
void TF_DeleteShapeHandle(TF_ShapeHandle* handle);
void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext* context, int index,
                                      TF_ShapeHandle* handle, TF_Status* status);
void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext* context, int index,
                                       TF_ShapeHandle* handle, TF_Status* status);
void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder* builder, bool is_stateful);
void TF_RegisterOpDefinition(TF_OpDefinitionBuilder* builder, TF_Status* status);

/* Kernels */
TF_KernelBuilder* TF_NewKernelBuilder(const char* op_name, const char* device_name,
                                      void* (*create)(TF_OpKernelConstruction*),
                                      void (*compute)(void*, TF_OpKernelContext*),
                                      void (*destroy)(void*));
void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder* builder, const char* attribute,
                                     TF_DataType dtype, TF_Status* status);
void TF_KernelBuilder_HostMemory(TF_KernelBuilder* builder, const char* argument);
void TF_RegisterKernelBuilder(const char* kernel_name, TF_KernelBuilder* builder,
                              TF_Status* status);
void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction* context, const char* name,
                                          int64_t* value, TF_Status* status);
void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction* context, const char* name,
                                         int32_t* list_size, int32_t* total_size,
                                         TF_Status* status);
void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction* context, const char* name,
                                           char* value, size_t max_length, TF_Status* status);
void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction* context, TF_Status* status);
void TF_GetInput(TF_OpKernelContext* context, int index, TF_Tensor** tensor, TF_Status* status);
TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context, int index, TF_DataType dtype,
                             const int64_t* dims, int num_dims, size_t num_bytes,
                             TF_Status* status);
TF_Tensor* TF_ForwardInputOrAllocateOutput(TF_OpKernelContext* context,
                                           const int* candidate_input_indices,
                                           int num_candidate_input_indices, int output_index,
                                           const int64_t* dims, int num_dims, int* forwarded_input,
                                           TF_Status* status);
void TF_SetOutput(TF_OpKernelContext* context, int index, const TF_Tensor* tensor,
                  TF_Status* status);
void TF_OpKernelContext_Failure(TF_OpKernelContext* context, TF_Status* status);

#ifdef __cplusplus
}
#endif
