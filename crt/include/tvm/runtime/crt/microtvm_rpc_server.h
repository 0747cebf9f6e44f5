/* Lets a host drive this device over a line of bytes: TVM's RPC, by TVM's names.
 *
 *   void on_bytes(const uint8_t *data, size_t size) {
 *     uint8_t *at = (uint8_t *)data;
 *     while (size > 0) {
 *       MicroTVMRpcServerLoop(server, &at, &size);
 *     }
 *   }
 *
 * The server has static memory: TVM_CRT_MAX_PACKET_SIZE_BYTES for a request, 7/4 of that for its
 * arguments, and what the buffers below take. All that a host allocates, and all executors, are in
 * TVMPlatformMemoryAllocate's memory, which must be able to free in any order, as the page
 * allocator can; it is given back when the session ends, also when the host just disappears. */
#ifndef TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/rpc_common/framing.h>

/* Log lines that wait while a frame is sent; a line takes its length and one byte. */
#ifndef TVM_CRT_RPC_LOG_QUEUE_BYTES
#define TVM_CRT_RPC_LOG_QUEUE_BYTES 256
#endif

/* The longest log line, with the closing NUL: at most 256. Longer ones are cut. */
#ifndef TVM_CRT_RPC_LOG_LINE_BYTES
#define TVM_CRT_RPC_LOG_LINE_BYTES 256
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void *microtvm_rpc_server_t;

/* Initialises the runtime, registers the AOT executor's module and tells a host that an older
 * session has ended. `write_func` sends bytes to the host. There is one server; a second call
 * starts it anew. NULL when the runtime cannot be initialised. Call TVMPlatformInitialize before,
 * TVMGraphExecutorModule_Register after it if hosts shall create graph executors here. */
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func,
                                            void *write_func_ctx);

/* Reads bytes that came from the host, and moves `*new_data` and `*new_data_size_bytes` past them:
 * past one message if they hold more. Answers the message. 0, or what `write_func` failed with:
 * nothing that a host sends is an error, and the server can go on in any case. After a Shutdown it
 * waits for the next session. */
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t **new_data,
                                      size_t *new_data_size_bytes);

/* TVMLogf sends a line to the host; a line that comes while a frame is sent, from an interrupt,
 * waits. It may be called from the server's own thread and from interrupts. An application's own
 * TVMLogf takes its place. */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_ */
