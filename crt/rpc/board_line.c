/* The line of a simulated board: its first UART, read by asking. */
#include "board_uart.h"
#include "rpc_line.h"

int rpc_line_open(int argc, char **argv) {
  (void)argc;
  (void)argv;
  board_uart_start();
  return 0;
}

size_t rpc_line_read(uint8_t *data, size_t size) {
  size_t count = 0;
  while (!board_uart_has_byte()) {
    board_uart_wait();
  }
  do {
    data[count++] = board_uart_take();
  } while (count < size && board_uart_has_byte());
  return count;
}

ssize_t rpc_line_write(void *context, const uint8_t *data, size_t num_bytes) {
  size_t i;
  (void)context;
  for (i = 0; i < num_bytes; i++) {
    board_uart_put(data[i]);
  }
  return (ssize_t)num_bytes;
}
