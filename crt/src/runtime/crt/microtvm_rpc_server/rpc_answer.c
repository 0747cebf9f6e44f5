/* Answers to a host. */
#include <string.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/rpc/server.h>

enum {
  kReturn = 4,
  kException = 5,
  kHostBytes = 2048, /* of a message that a host of TVM can receive */
  kBytesOverhead = kTVMSessionHeaderBytes + kRpcPacketHeaderBytes + 3 * 4 + 2 * 8
};

void TVMRpcAnswer_Number(TVMRpcAnswer *answer, uint64_t number, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; i++) {
    answer->bytes[answer->used++] = (uint8_t)(number >> (8 * i));
  }
}

void TVMRpcAnswer_Begin(TVMRpcAnswer *answer, int code) {
  answer->used = 0;
  TVMRpcAnswer_Number(answer, 0, 8); /* the length, known when it is sent */
  TVMRpcAnswer_Number(answer, (uint32_t)code, 4);
}

/* Begins the message; what follows is `more_bytes` long. */
static tvm_crt_error_t begin_message(TVMRpcAnswer *answer, TVMSession *session, size_t more_bytes) {
  const size_t used = answer->used;
  tvm_crt_error_t code;
  answer->used = 0;
  TVMRpcAnswer_Number(answer, used - 8 + (uint64_t)more_bytes, 8);
  TVMRpcLog_BeginFrame();
  code = TVMSession_Start(session, used + more_bytes);
  if (code == kTvmErrorNoError) {
    TVMFramer_Put(&session->framer, answer->bytes, used);
  }
  return code;
}

static tvm_crt_error_t end_message(TVMSession *session, tvm_crt_error_t code) {
  if (code == kTvmErrorNoError) {
    code = TVMSession_Finish(session);
  }
  TVMRpcLog_EndFrame();
  return code;
}

tvm_crt_error_t TVMRpcAnswer_Send(TVMRpcAnswer *answer, TVMSession *session, const void *more,
                                  size_t more_bytes) {
  const tvm_crt_error_t code = begin_message(answer, session, more_bytes);
  if (code == kTvmErrorNoError) {
    TVMFramer_Put(&session->framer, more, more_bytes);
  }
  return end_message(session, code);
}

/* Low bytes first, whatever this machine's order is. */
tvm_crt_error_t TVMRpcAnswer_SendTensor(TVMRpcAnswer *answer, TVMSession *session,
                                        const DLTensor *tensor, size_t num_bytes) {
  const tvm_crt_error_t code = begin_message(answer, session, num_bytes);
  const size_t element_bytes = ((size_t)tensor->dtype.bits + 7) / 8;
  const uint8_t *const data = tensor->data;
  size_t i;
  for (i = 0; i < num_bytes && code == kTvmErrorNoError; i++) {
    TVMFramer_Put(&session->framer,
                  data + TVMLittleEndianPlace((size_t)tensor->byte_offset + i, element_bytes), 1);
  }
  return end_message(session, code);
}

/* A sequence begins with its type codes. */
static void begin_return(TVMRpcAnswer *answer, int count, const int *tcodes) {
  int i;
  TVMRpcAnswer_Begin(answer, kReturn);
  TVMRpcAnswer_Number(answer, (uint32_t)count, 4);
  for (i = 0; i < count; i++) {
    TVMRpcAnswer_Number(answer, (uint32_t)tcodes[i], 4);
  }
}

tvm_crt_error_t TVMRpcAnswer_Void(TVMSession *session) {
  static const int kCodes[] = {kTVMNullptr};
  TVMRpcAnswer answer;
  begin_return(&answer, 1, kCodes);
  return TVMRpcAnswer_Send(&answer, session, NULL, 0);
}

tvm_crt_error_t TVMRpcAnswer_Handle(TVMSession *session, const void *handle) {
  static const int kCodes[] = {kTVMOpaqueHandle};
  TVMRpcAnswer answer;
  begin_return(&answer, 1, kCodes);
  TVMRpcAnswer_Number(&answer, (uintptr_t)handle, 8);
  return TVMRpcAnswer_Send(&answer, session, NULL, 0);
}

tvm_crt_error_t TVMRpcAnswer_Exception(TVMSession *session, const char *text) {
  const size_t length = strlen(text);
  TVMRpcAnswer answer;
  TVMRpcAnswer_Begin(&answer, kException);
  TVMRpcAnswer_Number(&answer, 1, 4);
  TVMRpcAnswer_Number(&answer, kTVMStr, 4);
  TVMRpcAnswer_Number(&answer, length, 8);
  return TVMRpcAnswer_Send(&answer, session, text, length);
}

static tvm_crt_error_t return_bytes(TVMSession *session, int tcode, const char *data, size_t size) {
  const int codes[] = {kTVMArgInt, tcode};
  TVMRpcAnswer answer;
  if (size > kHostBytes - kBytesOverhead) {
    return TVMRpcAnswer_Exception(session, "a result of more bytes than a packet holds");
  }
  begin_return(&answer, 2, codes);
  TVMRpcAnswer_Number(&answer, (uint32_t)tcode, 8);
  TVMRpcAnswer_Number(&answer, size, 8);
  return TVMRpcAnswer_Send(&answer, session, data, size);
}

/* The tensor's address is its handle too: it belongs to an executor, and is not freed. */
static tvm_crt_error_t return_tensor(TVMSession *session, const DLTensor *tensor) {
  static const int kCodes[] = {kTVMArgInt, kTVMDLTensorHandle, kTVMOpaqueHandle};
  TVMRpcAnswer answer;
  int32_t i;
  if (tensor->ndim < 0 || tensor->ndim > TVM_CRT_MAX_NDIM || !TVMTensor_IsCompact(tensor)) {
    return TVMRpcAnswer_Exception(session, "a result that cannot be sent: strides, or its rank");
  }
  begin_return(&answer, 3, kCodes);
  TVMRpcAnswer_Number(&answer, kTVMNDArrayHandle, 8);
  TVMRpcAnswer_Number(&answer, (uintptr_t)tensor->data, 8);
  TVMRpcAnswer_Number(&answer, (uint32_t)tensor->device.device_type, 4);
  TVMRpcAnswer_Number(&answer, (uint32_t)tensor->device.device_id, 4);
  TVMRpcAnswer_Number(&answer, (uint32_t)tensor->ndim, 4);
  TVMRpcAnswer_Number(&answer, tensor->dtype.code, 1);
  TVMRpcAnswer_Number(&answer, tensor->dtype.bits, 1);
  TVMRpcAnswer_Number(&answer, tensor->dtype.lanes, 2);
  for (i = 0; i < tensor->ndim; i++) {
    TVMRpcAnswer_Number(&answer, (uint64_t)tensor->shape[i], 8);
  }
  TVMRpcAnswer_Number(&answer, tensor->byte_offset, 8);
  TVMRpcAnswer_Number(&answer, (uintptr_t)tensor, 8);
  return TVMRpcAnswer_Send(&answer, session, NULL, 0);
}

/* Numbers and handles: the real type code, and the value by one that the wire has. */
static tvm_crt_error_t return_word(TVMSession *session, const TVMValue *value, int tcode) {
  const int is_handle =
      tcode == kTVMOpaqueHandle || tcode == kTVMModuleHandle || tcode == kTVMPackedFuncHandle;
  const int codes[] = {kTVMArgInt, is_handle ? kTVMOpaqueHandle : tcode};
  uint64_t word;
  TVMRpcAnswer answer;
  memcpy(&word, value, sizeof word);
  begin_return(&answer, 2, codes);
  TVMRpcAnswer_Number(&answer, (uint32_t)tcode, 8);
  TVMRpcAnswer_Number(&answer, is_handle ? (uintptr_t)value->v_handle : word, 8);
  return TVMRpcAnswer_Send(&answer, session, NULL, 0);
}

tvm_crt_error_t TVMRpcAnswer_Result(TVMSession *session, const char *function,
                                    const TVMValue *value, int tcode) {
  static const int kNothing[] = {kTVMArgInt, kTVMNullptr};
  const TVMByteArray *bytes;
  TVMRpcAnswer answer;
  TVMRpcText text;
  switch (tcode) {
  case kTVMNullptr:
    begin_return(&answer, 2, kNothing);
    TVMRpcAnswer_Number(&answer, kTVMNullptr, 8);
    return TVMRpcAnswer_Send(&answer, session, NULL, 0);
  case kTVMArgInt:
  case kDLUInt:
  case kTVMArgFloat:
  case kTVMOpaqueHandle:
  case kTVMModuleHandle:
  case kTVMPackedFuncHandle:
    return return_word(session, value, tcode);
  case kTVMStr:
    return return_bytes(session, tcode, value->v_str, strlen(value->v_str));
  case kTVMBytes:
    bytes = value->v_handle;
    return return_bytes(session, tcode, bytes->data, bytes->size);
  case kTVMDLTensorHandle:
  case kTVMNDArrayHandle:
    return return_tensor(session, value->v_handle);
  default:
    text.length = 0;
    TVMRpcText_Add(&text, function);
    TVMRpcText_Add(&text, ": a result of a type that cannot be sent: ");
    TVMRpcText_AddNumber(&text, (size_t)tcode, 10);
    return TVMRpcAnswer_Exception(session, text.text);
  }
}
