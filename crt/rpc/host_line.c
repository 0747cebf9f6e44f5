/* The line of a program on a computer: its standard input and output, or the serial device (a
 * pseudo-terminal, too) that its argument names. */
#define _DEFAULT_SOURCE /* cfmakeraw */

#include <errno.h>
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "rpc_line.h"

static int from_host = 0;
static int to_host = 1;

int rpc_line_open(int argc, char **argv) {
  struct termios mode;
  if (argc < 2) {
    return 0;
  }
  from_host = to_host = open(argv[1], O_RDWR | O_NOCTTY);
  if (from_host < 0) {
    return -1;
  }
  if (tcgetattr(from_host, &mode) == 0) { /* a serial device: bytes as they are */
    cfmakeraw(&mode);
    return tcsetattr(from_host, TCSANOW, &mode);
  }
  return 0;
}

size_t rpc_line_read(uint8_t *data, size_t size) {
  ssize_t count;
  do {
    count = read(from_host, data, size);
  } while (count < 0 && errno == EINTR);
  return count > 0 ? (size_t)count : 0;
}

ssize_t rpc_line_write(void *context, const uint8_t *data, size_t num_bytes) {
  ssize_t count;
  (void)context;
  do {
    count = write(to_host, data, num_bytes);
  } while (count < 0 && errno == EINTR);
  return count;
}
