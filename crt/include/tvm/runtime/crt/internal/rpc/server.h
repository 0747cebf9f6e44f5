/* The parts of the RPC server. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_INTERNAL_RPC_SERVER_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/bytes.h>
#include <tvm/runtime/crt/rpc_common/session.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  kRpcPacketHeaderBytes = 12, /* u64 length, i32 code */
  /* A tensor takes 12 + 48 + 8 * rank bytes here and 36 + 8 * rank in a packet. */
  kRpcArgumentBytes = TVM_CRT_MAX_PACKET_SIZE_BYTES / 4 * 7
};

/* Logs (rpc_log.c): `TVMRpcLog_Send` while no frame is open; Begin and End enclose a frame. */
void TVMRpcLog_Open(TVMSession *session);
void TVMRpcLog_BeginFrame(void);
void TVMRpcLog_EndFrame(void);

/* Packed sequences (rpc_values.c). Text and bytes stay in the packet, whose bytes are changed. */
typedef struct {
  TVMValue *values;
  int *tcodes;
  int count;
} TVMRpcArguments;

/* NULL, or what is wrong with the sequence. */
const char *TVMRpcArguments_Read(TVMByteCursor *cursor, TVMRpcArguments *args);

/* A tensor without a type code before it. It is valid until the next sequence is read. */
const char *TVMRpcTensor_Read(TVMByteCursor *cursor, DLTensor **tensor);

/* NULL, or why these bytes from the tensor's offset on, or all of it, are not a host's to use. */
const char *TVMRpcTensor_Check(const DLTensor *tensor, uint64_t num_bytes);
const char *TVMRpcTensor_CheckAll(const DLTensor *tensor);

/* Text in parts, cut at the end of its buffer. */
typedef struct {
  char text[384];
  size_t length;
} TVMRpcText;

void TVMRpcText_Add(TVMRpcText *text, const char *part);
void TVMRpcText_AddNumber(TVMRpcText *text, size_t number, unsigned base);

/* Answers (rpc_answer.c): each sends one message. */
typedef struct {
  uint8_t bytes[kRpcPacketHeaderBytes + 96 + 8 * TVM_CRT_MAX_NDIM];
  size_t used;
} TVMRpcAnswer;

void TVMRpcAnswer_Begin(TVMRpcAnswer *answer, int code);
void TVMRpcAnswer_Number(TVMRpcAnswer *answer, uint64_t number, size_t bytes);
/* Sends what was put, and bytes; or, in place of the bytes, a part of a tensor. */
tvm_crt_error_t TVMRpcAnswer_Send(TVMRpcAnswer *answer, TVMSession *session, const void *more,
                                  size_t more_bytes);
tvm_crt_error_t TVMRpcAnswer_SendTensor(TVMRpcAnswer *answer, TVMSession *session,
                                        const DLTensor *tensor, size_t num_bytes);

tvm_crt_error_t TVMRpcAnswer_Void(TVMSession *session);
tvm_crt_error_t TVMRpcAnswer_Handle(TVMSession *session, const void *handle);
tvm_crt_error_t TVMRpcAnswer_Exception(TVMSession *session, const char *text);
tvm_crt_error_t TVMRpcAnswer_Result(TVMSession *session, const char *function,
                                    const TVMValue *value, int tcode);

/* The session's memory (rpc_memory.c). */
tvm_crt_error_t TVMRpcMemory_Allocate(size_t num_bytes, size_t alignment, DLDevice device,
                                      void **data);
/* -1 when the session has no such block. */
int TVMRpcMemory_Free(const void *data);
void TVMRpcMemory_FreeAll(void);

/* Requests (rpc_requests.c): answers a packet. Its last argument is set by a Shutdown. */
tvm_crt_error_t TVMRpc_Answer(TVMSession *session, uint8_t *packet, size_t num_bytes,
                              int *shut_down);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_RPC_SERVER_H_ */
