/* Firmware that a host drives: the server, and nothing else. */
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/platform.h>

#include "rpc_line.h"

enum { kStatusNoLine = 3, kStatusNoMemory = 4, kStatusBadLine = 5 };

int main(int argc, char **argv) {
  static uint8_t bytes[64];
  microtvm_rpc_server_t server;
  size_t size;
  if (rpc_line_open(argc, argv) != 0) {
    return kStatusNoLine;
  }
  if (TVMPlatformInitialize() != kTvmErrorNoError) {
    return kStatusNoMemory;
  }
  server = MicroTVMRpcServerInit(rpc_line_write, NULL);
  if (server == NULL || TVMGraphExecutorModule_Register() != kTvmErrorNoError) {
    return kStatusNoMemory;
  }
  while ((size = rpc_line_read(bytes, sizeof bytes)) > 0) {
    uint8_t *at = bytes;
    while (size > 0) {
      if (MicroTVMRpcServerLoop(server, &at, &size) != kTvmErrorNoError) {
        return kStatusBadLine;
      }
    }
  }
  return 0;
}
