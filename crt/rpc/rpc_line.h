/* The line to a host: standard input and output or a serial device of a computer, a UART of a
 * board. */
#ifndef MLF_RPC_LINE_H_
#define MLF_RPC_LINE_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t */

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the line of the program's arguments. 0, or -1. */
int rpc_line_open(int argc, char **argv);

/* Waits for bytes and returns how many there are, at most `size`; 0 when the line is closed. */
size_t rpc_line_read(uint8_t *data, size_t size);

/* A microtvm_rpc_channel_write_t. */
ssize_t rpc_line_write(void *context, const uint8_t *data, size_t num_bytes);

#ifdef __cplusplus
}
#endif

#endif /* MLF_RPC_LINE_H_ */
