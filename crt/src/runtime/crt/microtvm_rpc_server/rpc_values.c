/* Packed sequences: the arguments of calls, as they are on the wire. */
#include <string.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/rpc/server.h>
#include <tvm/runtime/crt/platform.h>

enum { kHostBool = 15 }; /* hosts of TVM 0.18 send true and false so; they are numbers of 8 bytes */

/* Arguments of one request, from the start of the memory to its end. */
static union {
  TVMValue alignment;
  uint8_t bytes[kRpcArgumentBytes];
} memory;
static size_t used;

static const char kCutOff[] = "the packet ends within an argument";
static const char kNoRoom[] = "more arguments than TVM_CRT_MAX_PACKET_SIZE_BYTES allows";

static void *reserve(size_t bytes) {
  void *const at = memory.bytes + used;
  bytes = (bytes + 7) & ~(size_t)7;
  if (bytes > sizeof memory.bytes - used) {
    return NULL;
  }
  used += bytes;
  return at;
}

static uint8_t byte_of(uint64_t number, int i) {
  return (uint8_t)(number >> (8 * i));
}

static DLDataType type_of(uint64_t word) {
  DLDataType dtype;
  dtype.code = byte_of(word, 0);
  dtype.bits = byte_of(word, 1);
  dtype.lanes = (uint16_t)(word >> 16 & 0xffff);
  return dtype;
}

static DLDevice device_of(uint64_t word) {
  DLDevice device;
  device.device_type = (DLDeviceType)(uint32_t)word;
  device.device_id = (int32_t)(uint32_t)(word >> 32);
  return device;
}

/* The host may have sign-extended the address of a 32-bit machine: the low half is the address. */
static void *pointer_of(uint64_t number) {
  return (void *)(uintptr_t)number;
}

static const char *read_shape(TVMByteCursor *cursor, DLTensor *tensor) {
  int32_t i;
  if (tensor->ndim < 0 || (size_t)tensor->ndim > cursor->left / 8) {
    return kCutOff;
  }
  tensor->shape = reserve((size_t)tensor->ndim * sizeof *tensor->shape);
  if (tensor->shape == NULL) {
    return kNoRoom;
  }
  for (i = 0; i < tensor->ndim; i++) {
    uint64_t extent = 0;
    (void)TVMByteCursor_Number(cursor, 8, &extent); /* they are there */
    tensor->shape[i] = (int64_t)extent;
  }
  return NULL;
}

static const char *read_tensor(TVMByteCursor *cursor, DLTensor **result) {
  DLTensor *const tensor = reserve(sizeof *tensor);
  uint64_t data, device, ndim, dtype, offset;
  const char *wrong;
  if (tensor == NULL) {
    return kNoRoom;
  }
  memset(tensor, 0, sizeof *tensor);
  if (TVMByteCursor_Number(cursor, 8, &data) != 0 ||
      TVMByteCursor_Number(cursor, 8, &device) != 0 ||
      TVMByteCursor_Number(cursor, 4, &ndim) != 0 || TVMByteCursor_Number(cursor, 4, &dtype) != 0) {
    return kCutOff;
  }
  tensor->data = pointer_of(data);
  tensor->device = device_of(device);
  tensor->ndim = (int32_t)(uint32_t)ndim;
  tensor->dtype = type_of(dtype);
  wrong = read_shape(cursor, tensor);
  if (wrong != NULL) {
    return wrong;
  }
  if (TVMByteCursor_Number(cursor, 8, &offset) != 0) {
    return kCutOff;
  }
  tensor->byte_offset = offset;
  *result = tensor;
  return NULL;
}

/* Text is moved to where its length was, which makes room for the NUL. */
static const char *read_text(TVMByteCursor *cursor, int tcode, TVMValue *value) {
  uint8_t *const at = (uint8_t *)cursor->at;
  uint64_t length;
  if (TVMByteCursor_Number(cursor, 8, &length) != 0 || length > cursor->left) {
    return kCutOff;
  }
  (void)TVMByteCursor_Take(cursor, (size_t)length);
  if (tcode == kTVMBytes) {
    TVMByteArray *const bytes = reserve(sizeof *bytes);
    if (bytes == NULL) {
      return kNoRoom;
    }
    bytes->data = (const char *)at + 8;
    bytes->size = (size_t)length;
    value->v_handle = bytes;
    return NULL;
  }
  memmove(at, at + 8, (size_t)length);
  at[length] = '\0';
  value->v_str = (const char *)at;
  return NULL;
}

static const char *read_value(TVMByteCursor *cursor, int tcode, TVMValue *value) {
  DLTensor *tensor = NULL;
  const char *wrong;
  uint64_t word = 0;
  memset(value, 0, sizeof *value);
  switch (tcode) {
  case kTVMNullptr:
    return NULL;
  case kTVMStr:
  case kTVMBytes:
    return read_text(cursor, tcode, value);
  case kTVMDLTensorHandle:
    wrong = read_tensor(cursor, &tensor);
    value->v_handle = tensor;
    return wrong;
  default:
    break;
  }
  if (TVMByteCursor_Number(cursor, 8, &word) != 0) {
    return kCutOff;
  }
  switch (tcode) {
  case kTVMArgInt:
  case kDLUInt:
    value->v_int64 = (int64_t)word;
    return NULL;
  case kTVMArgFloat:
    memcpy(&value->v_float64, &word, sizeof word);
    return NULL;
  case kTVMOpaqueHandle:
  case kTVMModuleHandle:
  case kTVMPackedFuncHandle:
    value->v_handle = pointer_of(word);
    return NULL;
  case kTVMDataType:
    value->v_type = type_of(word & 0xffffffffu);
    return NULL;
  case kDLDevice:
    value->v_device = device_of(word);
    return NULL;
  default:
    return "an argument of a type that cannot be sent";
  }
}

const char *TVMRpcArguments_Read(TVMByteCursor *cursor, TVMRpcArguments *args) {
  const char *wrong = NULL;
  TVMByteCursor values = *cursor;
  uint64_t count;
  uint64_t word = 0;
  int i;
  used = 0;
  args->count = 0;
  if (TVMByteCursor_Number(&values, 4, &count) != 0 || count > values.left / 4) {
    return kCutOff;
  }
  args->values = reserve((size_t)count * sizeof *args->values);
  args->tcodes = args->values == NULL ? NULL : reserve((size_t)count * sizeof *args->tcodes);
  if (args->tcodes == NULL) {
    return kNoRoom;
  }
  args->count = (int)count;
  for (i = 0; i < args->count; i++) {
    (void)TVMByteCursor_Number(&values, 4, &word); /* they are there */
    args->tcodes[i] = word == kHostBool ? kTVMArgInt : (int)(uint32_t)word;
  }
  for (i = 0; i < args->count && wrong == NULL; i++) {
    wrong = read_value(&values, args->tcodes[i], &args->values[i]);
  }
  *cursor = values;
  return wrong;
}

const char *TVMRpcTensor_Read(TVMByteCursor *cursor, DLTensor **tensor) {
  used = 0;
  return read_tensor(cursor, tensor);
}

const char *TVMRpcTensor_Check(const DLTensor *tensor, uint64_t num_bytes) {
  const uintptr_t start = (uintptr_t)tensor->data; /* as a number: it may point nowhere */
  if (tensor->device.device_type != kDLCPU || tensor->device.device_id != 0) {
    return "a tensor on a device that is not here";
  }
  if (num_bytes == 0) {
    return NULL;
  }
  if (start == 0 || tensor->byte_offset > UINTPTR_MAX - start ||
      num_bytes > UINTPTR_MAX - start - (uintptr_t)tensor->byte_offset ||
      TVMPlatformCheckAccess((const void *)(start + (uintptr_t)tensor->byte_offset),
                             (size_t)num_bytes) != kTvmErrorNoError) {
    return "a tensor outside of this device's memory";
  }
  return NULL;
}

const char *TVMRpcTensor_CheckAll(const DLTensor *tensor) {
  size_t num_bytes;
  if (TVMTensor_SizeBytes(tensor->ndim, tensor->shape, tensor->dtype, &num_bytes) != 0) {
    return "a tensor without a size";
  }
  return TVMRpcTensor_Check(tensor, num_bytes);
}

void TVMRpcText_Add(TVMRpcText *text, const char *part) {
  while (*part != '\0' && text->length + 1 < sizeof text->text) {
    text->text[text->length++] = *part++;
  }
  text->text[text->length] = '\0';
}

void TVMRpcText_AddNumber(TVMRpcText *text, size_t number, unsigned base) {
  char digits[3 * sizeof number + 1];
  size_t at = sizeof digits - 1;
  digits[at] = '\0';
  do {
    digits[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number != 0);
  TVMRpcText_Add(text, digits + at);
}
