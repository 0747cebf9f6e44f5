/* Requests of a host: one packet each, and one answer. */
#include <string.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/rpc/server.h>
#include <tvm/runtime/crt/platform.h>

typedef enum {
  kShutdown = 1,
  kInitServer = 2,
  kCallFunc = 3,
  kCopyFromRemote = 6,
  kCopyToRemote = 7,
  kCopyAck = 8,
  kGetGlobalFunc = 9,
  kFreeHandle = 10,
  kDevAllocData = 13,
  kDevFreeData = 14,
  kDevStreamSync = 15,
  kCopyAmongRemote = 16,
  kDevAllocDataWithScope = 17,
  kDevCreateStream = 18,
  kDevFreeStream = 19,
  kDevSetStream = 20
} Code;

typedef struct {
  TVMSession *session;
  TVMByteCursor body;
  TVMRpcArguments args;
} Request;

/* "<what>: <why>" */
static tvm_crt_error_t refuse(const Request *r, const char *what, const char *why) {
  TVMRpcText text;
  text.length = 0;
  TVMRpcText_Add(&text, what);
  TVMRpcText_Add(&text, ": ");
  TVMRpcText_Add(&text, why);
  return TVMRpcAnswer_Exception(r->session, text.text);
}

/* "<what>: error 0x<code>", what the callee said, and how much memory was asked for and is left. */
static tvm_crt_error_t report(const Request *r, const char *what, int code) {
  const char *const said = TVMGetLastError();
  TVMRpcText text;
  text.length = 0;
  TVMRpcText_Add(&text, what);
  TVMRpcText_Add(&text, code < 0 ? ": error -" : ": error 0x");
  TVMRpcText_AddNumber(&text, code < 0 ? (size_t)0 - (size_t)code : (size_t)code,
                       code < 0 ? 10 : 16);
  if (said[0] != '\0') {
    TVMRpcText_Add(&text, ": ");
    TVMRpcText_Add(&text, said);
  }
  if (code == kTvmErrorPlatformNoMemory) {
    TVMRpcText_Add(&text, ": out of memory: ");
    TVMRpcText_AddNumber(&text, TVMMemoryLastRefused(), 10);
    TVMRpcText_Add(&text, " bytes asked for");
    if (TVMPlatformMemoryLeft() != SIZE_MAX) {
      TVMRpcText_Add(&text, ", ");
      TVMRpcText_AddNumber(&text, TVMPlatformMemoryLeft(), 10);
      TVMRpcText_Add(&text, " left");
    }
  }
  return TVMRpcAnswer_Exception(r->session, text.text);
}

static tvm_crt_error_t answer_code(const Request *r, const char *what, int code) {
  return code == 0 ? TVMRpcAnswer_Void(r->session) : report(r, what, code);
}

/* NULL, or what is wrong with the arguments: a letter for each type code. */
static const char *read_arguments(Request *r, const char *types) {
  static const char kLetters[] = "iifhn"; /* of the codes from 0 to 4 */
  const char *const wrong = TVMRpcArguments_Read(&r->body, &r->args);
  int i;
  if (wrong != NULL) {
    return wrong;
  }
  if ((size_t)r->args.count != strlen(types)) {
    return "the wrong number of arguments";
  }
  for (i = 0; i < r->args.count; i++) {
    const int tcode = r->args.tcodes[i];
    const char letter = tcode == kDLDevice            ? 'd'
                        : tcode == kTVMDLTensorHandle ? 't'
                        : tcode == kTVMStr            ? 's'
                        : tcode == kTVMDataType       ? 'y'
                        : tcode <= kTVMNullptr        ? kLetters[tcode]
                                                      : '?';
    if (types[i] != '*' && types[i] != letter) {
      return "an argument of the wrong type";
    }
  }
  return NULL;
}

static tvm_crt_error_t call_function(Request *r) {
  const char *wrong = NULL;
  TVMFunctionHandle function;
  const char *name;
  uint64_t handle = 0;
  TVMValue value;
  int tcode = kTVMNullptr;
  tvm_crt_error_t sent;
  int code;
  int i;
  if (TVMByteCursor_Number(&r->body, 8, &handle) != 0) {
    return refuse(r, "CallFunc", "the packet ends before its arguments");
  }
  function = (void *)(uintptr_t)handle;
  name = TVMFuncName(function);
  wrong = TVMRpcArguments_Read(&r->body, &r->args);
  for (i = 0; i < r->args.count && wrong == NULL; i++) {
    if (r->args.tcodes[i] == kTVMDLTensorHandle) {
      wrong = TVMRpcTensor_CheckAll(r->args.values[i].v_handle);
    }
  }
  if (wrong != NULL) {
    return refuse(r, name, wrong);
  }
  memset(&value, 0, sizeof value);
  TVMAPISetLastError("");
  code = TVMFuncCall(function, r->args.values, r->args.tcodes, r->args.count, &value, &tcode);
  if (code != 0) {
    return report(r, name, code);
  }
  sent = TVMRpcAnswer_Result(r->session, name, &value, tcode);
  if (tcode == kTVMBytes) {
    (void)TVMByteArrayFree(value.v_handle);
  }
  return sent;
}

/* The tensor and the number of bytes that both copies begin with. NULL, or what is wrong. */
static const char *read_copy(Request *r, DLTensor **tensor, uint64_t *num_bytes) {
  const char *const wrong = TVMRpcTensor_Read(&r->body, tensor);
  if (wrong != NULL) {
    return wrong;
  }
  if (TVMByteCursor_Number(&r->body, 8, num_bytes) != 0) {
    return "the packet ends before its data";
  }
  if ((*tensor)->dtype.bits == 0 || *num_bytes > TVM_CRT_MAX_TENSOR_BYTES) {
    return "a tensor without a size";
  }
  return TVMRpcTensor_Check(*tensor, *num_bytes);
}

static tvm_crt_error_t copy_to(Request *r) {
  DLTensor *tensor = NULL;
  uint64_t num_bytes = 0;
  const char *wrong = read_copy(r, &tensor, &num_bytes);
  size_t i;
  if (wrong == NULL && num_bytes != r->body.left) {
    wrong = "not as many bytes as it says";
  }
  if (wrong != NULL) {
    return refuse(r, "CopyToRemote", wrong);
  }
  for (i = 0; i < num_bytes; i++) {
    const size_t place =
        TVMLittleEndianPlace((size_t)tensor->byte_offset + i, ((size_t)tensor->dtype.bits + 7) / 8);
    ((uint8_t *)tensor->data)[place] = r->body.at[i];
  }
  return TVMRpcAnswer_Void(r->session);
}

static tvm_crt_error_t copy_from(Request *r) {
  DLTensor *tensor = NULL;
  uint64_t num_bytes = 0;
  const char *const wrong = read_copy(r, &tensor, &num_bytes);
  TVMRpcAnswer answer;
  if (wrong != NULL) {
    return refuse(r, "CopyFromRemote", wrong);
  }
  TVMRpcAnswer_Begin(&answer, kCopyAck);
  return TVMRpcAnswer_SendTensor(&answer, r->session, tensor, (size_t)num_bytes);
}

static tvm_crt_error_t copy_among(Request *r) {
  const TVMValue *const v = r->args.values;
  const char *wrong = TVMRpcTensor_CheckAll(v[0].v_handle);
  if (wrong == NULL) {
    wrong = TVMRpcTensor_CheckAll(v[1].v_handle);
  }
  if (wrong != NULL) {
    return refuse(r, "CopyAmongRemote", wrong);
  }
  return answer_code(r, "CopyAmongRemote",
                     TVMDeviceCopyDataFromTo(v[0].v_handle, v[1].v_handle, NULL));
}

static tvm_crt_error_t answer_block(Request *r, const char *what, DLDevice device, uint64_t bytes,
                                    uint64_t alignment) {
  void *data = NULL;
  tvm_crt_error_t code = kTvmErrorFunctionCallInvalidArg;
  if (bytes <= TVM_CRT_MAX_TENSOR_BYTES && alignment <= TVM_CRT_MAX_TENSOR_BYTES) {
    code = TVMRpcMemory_Allocate((size_t)bytes, (size_t)alignment, device, &data);
  }
  return code == kTvmErrorNoError ? TVMRpcAnswer_Handle(r->session, data)
                                  : report(r, what, (int)code);
}

static tvm_crt_error_t allocate(Request *r) {
  const TVMValue *const v = r->args.values;
  return answer_block(r, "DevAllocData", v[0].v_device, (uint64_t)v[1].v_int64,
                      (uint64_t)v[2].v_int64);
}

/* There is one kind of memory, so the scope does not matter. */
static tvm_crt_error_t allocate_tensor(Request *r) {
  const DLTensor *const tensor = r->args.values[0].v_handle;
  size_t bytes;
  if (TVMTensor_SizeBytes(tensor->ndim, tensor->shape, tensor->dtype, &bytes) != 0) {
    return refuse(r, "DevAllocDataWithScope", "a tensor without a size");
  }
  return answer_block(r, "DevAllocDataWithScope", tensor->device, bytes, 1);
}

static tvm_crt_error_t free_data(Request *r) {
  if (TVMRpcMemory_Free(r->args.values[1].v_handle) != 0) {
    return refuse(r, "DevFreeData", "no such block in this session");
  }
  return TVMRpcAnswer_Void(r->session);
}

/* Functions and tensors are not freed: they are their modules'. */
static tvm_crt_error_t free_handle(Request *r) {
  const int code = r->args.values[1].v_int64 == kTVMModuleHandle
                       ? TVMModFreeIfOwned(r->args.values[0].v_handle)
                       : 0;
  return answer_code(r, "FreeHandle", code);
}

static tvm_crt_error_t get_global(Request *r) {
  TVMFunctionHandle function = NULL;
  (void)TVMFuncGetGlobal(r->args.values[0].v_str, &function);
  return TVMRpcAnswer_Handle(r->session, function);
}

static tvm_crt_error_t do_nothing(Request *r) {
  return TVMRpcAnswer_Void(r->session);
}

static tvm_crt_error_t make_stream(Request *r) {
  return TVMRpcAnswer_Handle(r->session, NULL);
}

/* Requests whose body is a sequence: its types, and what answers it. */
static const struct {
  const char *name;
  const char *types;
  tvm_crt_error_t (*answer)(Request *r);
} kSystemCalls[] = {
    {"GetGlobalFunc", "s", get_global},
    {"FreeHandle", "hi", free_handle},
    {"DevSetDevice", NULL, NULL},
    {"DevGetAttr", NULL, NULL},
    {"DevAllocData", "diiy", allocate},
    {"DevFreeData", "dh", free_data},
    {"DevStreamSync", "d*", do_nothing},
    {"CopyAmongRemote", "tt*", copy_among},
    {"DevAllocDataWithScope", "t*", allocate_tensor},
    {"DevCreateStream", "d", make_stream},
    {"DevFreeStream", "d*", do_nothing},
    {"DevSetStream", "d*", do_nothing},
};

static tvm_crt_error_t answer_system_call(Request *r, size_t index) {
  const char *wrong;
  if (index >= sizeof kSystemCalls / sizeof kSystemCalls[0]) {
    return refuse(r, "RPC", "a request that is not known");
  }
  if (kSystemCalls[index].answer == NULL) {
    return refuse(r, kSystemCalls[index].name, "is not supported");
  }
  wrong = read_arguments(r, kSystemCalls[index].types);
  TVMAPISetLastError("");
  return wrong != NULL ? refuse(r, kSystemCalls[index].name, wrong) : kSystemCalls[index].answer(r);
}

tvm_crt_error_t TVMRpc_Answer(TVMSession *session, uint8_t *packet, size_t num_bytes,
                              int *shut_down) {
  uint64_t length = 0;
  uint64_t code = 0;
  Request r;
  r.session = session;
  r.body.at = packet;
  r.body.left = num_bytes;
  r.args.count = 0;
  *shut_down = 0;
  if (TVMByteCursor_Number(&r.body, 8, &length) == 0 && length == 0 && r.body.left == 0) {
    return kTvmErrorNoError;
  }
  if (length != r.body.left || TVMByteCursor_Number(&r.body, 4, &code) != 0) {
    return refuse(&r, "RPC", "a packet that is not as long as it says");
  }
  switch (code) {
  case kShutdown:
    *shut_down = 1;
    return kTvmErrorNoError;
  case kInitServer:
    return TVMRpcAnswer_Void(session);
  case kCallFunc:
    return call_function(&r);
  case kCopyFromRemote:
    return copy_from(&r);
  case kCopyToRemote:
    return copy_to(&r);
  default:
    return answer_system_call(&r,
                              code < kGetGlobalFunc ? SIZE_MAX : (size_t)(code - kGetGlobalFunc));
  }
}
