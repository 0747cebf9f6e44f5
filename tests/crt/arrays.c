/* Types, arrays, array records, device memory and random numbers. Prints what failed, exits 1 if
 * any. */
#include "expect.h"

#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/packed_func.h>

static const DLDevice kCpu = {kDLCPU, 0};
static const DLDataType kFloat32 = {kDLFloat, 32, 1};

static void data_types_have_names(void) {
  static const struct {
    const char *name;
    DLDataType dtype;
  } kTypes[] = {
      {"float32", {kDLFloat, 32, 1}}, {"int8", {kDLInt, 8, 1}},
      {"uint16", {kDLUInt, 16, 1}},   {"bool", {kDLUInt, 1, 1}},
      {"int4", {kDLInt, 4, 1}},       {"bfloat16", {kDLBfloat, 16, 1}},
      {"uint8x4", {kDLUInt, 8, 4}},   {"float64", {kDLFloat, 64, 1}},
      {"float0", {0, 0, 0}},          {"float", {0, 0, 0}},
      {"int65", {0, 0, 0}},           {"int8x", {0, 0, 0}},
      {"int8x65536", {0, 0, 0}},      {"Int8", {0, 0, 0}},
      {"int8 ", {0, 0, 0}},           {"", {0, 0, 0}},
      {"bool8", {0, 0, 0}},           {"int99999999999", {0, 0, 0}},
  };
  size_t i;
  for (i = 0; i < sizeof kTypes / sizeof kTypes[0]; i++) {
    const DLDataType dtype = String2DLDataType(kTypes[i].name);
    EXPECT(dtype.code == kTypes[i].dtype.code && dtype.bits == kTypes[i].dtype.bits &&
           dtype.lanes == kTypes[i].dtype.lanes);
  }
}

static void arrays_own_their_memory(void) {
  const int64_t shape[2] = {3, 4};
  const int64_t flat[1] = {12};
  const int64_t more[1] = {13};
  const int64_t negative[1] = {-1};
  const int64_t huge[2] = {65536, 65536};
  static const int64_t many[33] = {1, 1};
  const int64_t seven[7] = {1, 1, 1, 1, 1, 1, 1};
  DLTensor *from;
  DLTensor *to;
  TVMNDArray array;
  TVMNDArray view;
  EXPECT(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &from) == 0);
  EXPECT(TVMArrayAlloc(flat, 1, kDLInt, 32, 1, kDLCPU, 0, &to) == 0);
  EXPECT(((uintptr_t)from->data & 15) == 0 && from->shape[1] == 4);
  memset(from->data, 0x11, 48);
  EXPECT(TVMDeviceCopyDataFromTo(from, to, NULL) == 0 && ((uint8_t *)to->data)[47] == 0x11);
  EXPECT(TVMArrayFree(to) == 0);
  EXPECT(TVMArrayAlloc(more, 1, kDLFloat, 32, 1, kDLCPU, 0, &to) == 0);
  EXPECT(TVMDeviceCopyDataFromTo(from, to, NULL) == kTvmErrorFunctionCallInvalidArg);
  EXPECT(TVMArrayFree(to) == 0 && TVMArrayFree(from) == 0);
  EXPECT(TVMArrayAlloc(negative, 1, kDLInt, 8, 1, kDLCPU, 0, &to) != 0 && to == NULL);
  EXPECT(TVMArrayAlloc(huge, 2, kDLFloat, 32, 1, kDLCPU, 0, &to) != 0);
  EXPECT(TVMArrayAlloc(flat, 1, kDLInt, 300, 1, kDLCPU, 0, &to) != 0);
  EXPECT(TVMArrayAlloc(many, 33, kDLInt, 8, 1, kDLCPU, 0, &to) != 0 && to == NULL);

  EXPECT(TVMNDArray_Empty(2, shape, kFloat32, kCpu, &array) == 0);
  EXPECT(TVMNDArray_DataSizeBytes(&array) == 48);
  EXPECT(TVMNDArray_CreateView(&array, flat, 1, kFloat32, &view) == 0);
  EXPECT(view.dl_tensor.data == array.dl_tensor.data);
  EXPECT(TVMNDArray_Release(&view) == 0); /* not the data */
  EXPECT(TVMNDArray_CreateView(&array, more, 1, kFloat32, &view) ==
         kTvmErrorFunctionCallInvalidArg);
  TVMNDArray_IncrementReference(&array);
  EXPECT(TVMNDArray_Release(&array) == 0 && array.dl_tensor.data != NULL);
  EXPECT(TVMNDArray_Release(&array) == 0 && array.dl_tensor.data == NULL);
  EXPECT(TVMNDArray_Release(&array) == 0); /* and once more is no harm */
  EXPECT(TVMNDArray_Create(2, huge, kFloat32, kCpu, &array) != 0);
  EXPECT(TVMNDArray_Empty(1, negative, kFloat32, kCpu, &array) != 0);
  EXPECT(TVMNDArray_Empty(33, many, kFloat32, kCpu, &array) != 0);
  /* TVM_CRT_MAX_NDIM is no limit of arrays that own their memory. */
  EXPECT(TVMNDArray_Empty(7, seven, kFloat32, kCpu, &array) == 0 && array.dl_tensor.shape[6] == 1);
  EXPECT(TVMNDArray_Release(&array) == 0);
  EXPECT(TVMNDArray_Create(2, shape, kFloat32, kCpu, &array) == 0 && array.dl_tensor.data == NULL);
  EXPECT(TVMNDArray_Release(&array) == 0);
}

static void array_records_are_read_on_any_machine(void) {
  static const char kRecord[] = "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd\0\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0\1\0\0\0\0\x10\1\0\2\0\0\0\0\0\0\0"
                                "\4\0\0\0\0\0\0\0\x34\x12\xfe\xff";
  const char *at = kRecord;
  TVMByteCursor short_cursor;
  TVMNDArray array;
  short_cursor.at = (const uint8_t *)kRecord;
  short_cursor.left = sizeof kRecord - 2;
  EXPECT(TVMNDArray_LoadBytes(&array, &short_cursor) == -1);
  EXPECT(TVMNDArray_Load(&array, &at) == 0);
  EXPECT(at == kRecord + sizeof kRecord - 1);
  EXPECT(((int16_t *)array.dl_tensor.data)[0] == 0x1234);
  EXPECT(((int16_t *)array.dl_tensor.data)[1] == -2);
  EXPECT(TVMNDArray_Release(&array) == 0);
}

static void device_memory_is_the_platforms(void) {
  const int64_t shape[1] = {10};
  void *block = NULL;
  TVMStreamHandle stream = &block;
  EXPECT(TVMDeviceAllocDataSpace(kCpu, 100, 16, kFloat32, &block) == 0);
  EXPECT(TVMDeviceFreeDataSpace(kCpu, block) == 0);
  EXPECT(TVMDeviceAllocDataSpace(kCpu, 100, 4096, kFloat32, &block) != 0 && block == NULL);
  EXPECT(TVMDeviceAllocDataSpaceWithScope(kCpu, 1, shape, kFloat32, "global", &block) == 0);
  EXPECT(TVMDeviceFreeDataSpace(kCpu, block) == 0);
  EXPECT(TVMDeviceAllocDataSpaceWithScope(kCpu, 1, shape, kFloat32, "texture", &block) != 0);
  EXPECT(TVMStreamCreate(kDLCPU, 0, &stream) == 0 && stream == NULL);
  EXPECT(TVMSetStream(kDLCPU, 0, stream) == 0 && TVMSynchronize(kDLCPU, 0, stream) == 0);
  EXPECT(TVMStreamStreamSynchronize(kDLCPU, 0, stream, stream) == 0);
  EXPECT(TVMStreamFree(kDLCPU, 0, stream) == 0 && TVMObjectFree(NULL) == 0);
}

static void random_numbers_fill_a_tensor(void) {
  const int64_t shape[1] = {100};
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  DLTensor *t;
  int i;
  EXPECT(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &t) == 0);
  args.values[0].v_handle = t;
  args.tcodes[0] = kTVMNDArrayHandle;
  args.values_count = 1;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.contrib.random.random_fill", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  for (i = 0; i < 100; i++) {
    const float x = ((const float *)t->data)[i];
    EXPECT(x >= 0.0f && x < 1.0f && (i == 0 || x != ((const float *)t->data)[i - 1]));
  }
  pf.args.tcodes[0] = kTVMArgInt;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallWrongArgType);
  pf.args.values_count = 0;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallNumArguments);
  EXPECT(TVMArrayFree(t) == 0);
}

static void random_numbers_fit_their_type(void) {
  const int64_t shape[1] = {50};
  const DLDataType kBool = {kDLUInt, 1, 1};
  const DLDataType kFloat64 = {kDLFloat, 64, 1};
  const DLDataType kPairs = {kDLInt, 8, 2};
  TVMNDArray array;
  int i;
  EXPECT(TVMNDArray_Empty(1, shape, kBool, kCpu, &array) == 0);
  EXPECT(TVMNDArray_RandomFill(&array) == 0);
  for (i = 0; i < 50; i++) {
    EXPECT(((uint8_t *)array.dl_tensor.data)[i] < 2);
  }
  EXPECT(TVMNDArray_Release(&array) == 0);
  EXPECT(TVMNDArray_Empty(1, shape, kFloat64, kCpu, &array) == 0);
  EXPECT(TVMNDArray_RandomFill(&array) == 0);
  for (i = 0; i < 50; i++) {
    EXPECT(((double *)array.dl_tensor.data)[i] >= 0 && ((double *)array.dl_tensor.data)[i] < 1);
  }
  EXPECT(TVMNDArray_Release(&array) == 0);
  EXPECT(TVMNDArray_Empty(1, shape, kPairs, kCpu, &array) == 0);
  EXPECT(TVMNDArray_RandomFill(&array) == kTvmErrorFunctionCallInvalidArg);
  array.dl_tensor.ndim = -1;
  EXPECT(TVMNDArray_DataSizeBytes(&array) == -1);
  EXPECT(TVMNDArray_Release(&array) == 0);
}

static int task(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  return task_id == 0 && penv->num_task == 1 && cdata == NULL ? 9 : -1;
}

static void workspace_is_the_platforms(void) {
  void *const block = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLInt, 8);
  EXPECT(block != NULL && TVMBackendFreeWorkspace(kDLCPU, 0, block) == 0);
  EXPECT(TVMBackendParallelLaunch(task, NULL, 4) == 9);
}

int main(void) {
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  data_types_have_names();
  arrays_own_their_memory();
  array_records_are_read_on_any_machine();
  device_memory_is_the_platforms();
  random_numbers_fill_a_tensor();
  random_numbers_fit_their_type();
  workspace_is_the_platforms();
  return failures != 0;
}
