/* What holds for any tensor: types by name, sizes, and the array records of parameter files. */
#include <string.h>
#include <tvm/runtime/crt/internal/common/bytes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/packed_func.h>

enum { kMaxBits = 64 };

/* The number at `*text`, which is moved past it; 0 when there is none or it exceeds `max`. */
static uint32_t parse_number(const char **text, uint32_t max) {
  uint32_t number = 0;
  while (**text >= '0' && **text <= '9') {
    number = number * 10 + (uint32_t)(**text - '0');
    if (number > max) {
      return 0;
    }
    (*text)++;
  }
  return number;
}

static int starts_with(const char **text, const char *word) {
  const size_t length = strlen(word);
  if (strncmp(*text, word, length) != 0) {
    return 0;
  }
  *text += length;
  return 1;
}

int TVMDataType_Parse(const char *text, DLDataType *dtype) {
  static const struct {
    const char *name;
    uint8_t code;
    uint8_t bits; /* 0: the name is followed by them */
  } kKinds[] = {
      {"int", kDLInt, 0},     {"uint", kDLUInt, 0},
      {"float", kDLFloat, 0}, {"bfloat", kDLBfloat, 0},
      {"bool", kDLUInt, 1},   {"handle", kDLOpaqueHandle, 8 * sizeof(void *)},
  };
  size_t i;
  for (i = 0; i < sizeof kKinds / sizeof kKinds[0]; i++) {
    if (starts_with(&text, kKinds[i].name)) {
      break;
    }
  }
  if (i == sizeof kKinds / sizeof kKinds[0]) {
    return -1;
  }
  dtype->code = kKinds[i].code;
  dtype->bits = kKinds[i].bits;
  dtype->lanes = 1;
  if (dtype->bits == 0) {
    dtype->bits = (uint8_t)parse_number(&text, kMaxBits);
  }
  if (*text == 'x') {
    text++;
    dtype->lanes = (uint16_t)parse_number(&text, UINT16_MAX);
  }
  return *text == '\0' && dtype->bits > 0 && dtype->lanes > 0 ? 0 : -1;
}

DLDataType String2DLDataType(const char *s) {
  DLDataType dtype;
  if (TVMDataType_Parse(s, &dtype) != 0) {
    memset(&dtype, 0, sizeof dtype);
  }
  return dtype;
}

size_t TVMDataType_ElementBytes(DLDataType dtype) {
  return ((size_t)dtype.bits + 7) / 8 * dtype.lanes;
}

int TVMTensor_SizeBytes(int32_t ndim, const int64_t *shape, DLDataType dtype, size_t *bytes) {
  size_t size = TVMDataType_ElementBytes(dtype);
  int32_t i;
  if (ndim < 0 || size == 0) {
    return -1;
  }
  for (i = 0; i < ndim; i++) {
    if (shape[i] < 0 || (uint64_t)shape[i] > TVM_CRT_MAX_TENSOR_BYTES ||
        TVMSize_Mul(size, (size_t)shape[i], &size) != 0 || size > TVM_CRT_MAX_TENSOR_BYTES) {
      return -1;
    }
  }
  *bytes = size;
  return 0;
}

int TVMTensor_IsCompact(const DLTensor *tensor) {
  uint64_t stride = 1; /* may wrap around in a tensor without elements, harmlessly */
  int32_t i;
  if (tensor->strides == NULL) {
    return 1;
  }
  for (i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && (uint64_t)tensor->strides[i] != stride) {
      return 0;
    }
    stride *= (uint64_t)tensor->shape[i];
  }
  return 1;
}

/* Magic, reserved, device, rank, type: what comes before the shape. */
static int read_header(TVMByteCursor *cursor, TVMArrayRecord *record) {
  uint64_t word;
  if (TVMByteCursor_Number(cursor, 8, &word) != 0 || word != TVM_NDARRAY_MAGIC ||
      TVMByteCursor_Take(cursor, 16) == NULL || TVMByteCursor_Number(cursor, 4, &word) != 0 ||
      word > TVM_CRT_MAX_NDIM) {
    return -1;
  }
  record->ndim = (int32_t)word;
  if (TVMByteCursor_Number(cursor, 4, &word) != 0) {
    return -1;
  }
  record->dtype.code = (uint8_t)(word & 0xff);
  record->dtype.bits = (uint8_t)(word >> 8 & 0xff);
  record->dtype.lanes = (uint16_t)(word >> 16);
  return record->dtype.bits > kMaxBits || record->dtype.lanes != 1 ? -1 : 0;
}

int TVMArrayRecord_Read(TVMByteCursor *cursor, TVMArrayRecord *record) {
  uint64_t word;
  size_t bytes;
  int32_t i;
  if (read_header(cursor, record) != 0) {
    return -1;
  }
  for (i = 0; i < record->ndim; i++) {
    if (TVMByteCursor_Number(cursor, 8, &word) != 0 || word > TVM_CRT_MAX_TENSOR_BYTES) {
      return -1;
    }
    record->shape[i] = (int64_t)word;
  }
  /* The size follows from the shape, and is written all the same. */
  if (TVMTensor_SizeBytes(record->ndim, record->shape, record->dtype, &bytes) != 0 ||
      TVMByteCursor_Number(cursor, 8, &word) != 0 || word != bytes) {
    return -1;
  }
  record->data_bytes = (size_t)word;
  record->data = TVMByteCursor_Take(cursor, record->data_bytes);
  return record->data == NULL ? -1 : 0;
}
