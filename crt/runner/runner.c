/* Runs one module on samples from a file: runner INPUTS.bin OUTPUTS.bin [REPETITIONS].
 *
 * INPUTS.bin holds samples one after the other, a sample being all inputs in call order, raw.
 * OUTPUTS.bin gets the outputs in the same way. Every sample is run once, then REPETITIONS (1)
 * times under the counter. Last comes one line on standard output:
 *
 *   samples=3 instructions=123456 instructions_min=123440 instructions_max=123480 stack_bytes=812
 *
 * the mean, least and greatest cost of a counted inference, and the deepest stack below `run`. On
 * the host microseconds take the place of instructions and stack_bytes is absent.
 *
 * What is checked on the way: nothing is written next to the tensors, inputs stay as they were,
 * outputs are written whole, and an inference gives the same outputs each time; of a module with a
 * state, from the state that the sample before left. Exit status: 0 ok, 1 a check failed, 2 wrong
 * arguments or files, 3 the counter does not count instructions.
 */
#include "runner.h"

#include "platform.h"

enum { kOk = 0, kCheckFailed = 1, kBadInput = 2, kBadCounter = 3, kUnwritable = 4 };
enum { kGuardByte = 0xc9 };

/* What the counted inferences took. */
struct cost {
  uint64_t count;
  uint64_t sum;
  uint64_t min;
  uint64_t max;
  size_t stack_bytes;
};

static int complain(int status, const char *about, const char *what) {
  platform_complain("runner: ");
  platform_complain(about);
  platform_complain(": ");
  platform_complain(what);
  platform_complain("\n");
  return status;
}

static void print_number(uint64_t value, int min_digits) {
  char digits[24];
  size_t i = sizeof digits - 1;
  digits[i] = '\0';
  do {
    digits[--i] = (char)('0' + value % 10);
    value /= 10;
    min_digits--;
  } while (value != 0 || min_digits > 0);
  platform_print(digits + i);
}

/* " instructions_max=1234", or " microseconds_max=1.234". */
static void print_cost(const char *suffix, uint64_t value) {
  platform_print(" ");
  platform_print(platform_counter_name);
  platform_print(suffix);
  platform_print("=");
  print_number(value / platform_counter_scale, 1);
  if (platform_counter_scale == 1000) {
    platform_print(".");
    print_number(value % platform_counter_scale, 3);
  }
}

static void print_result(uint64_t samples, const struct cost *cost) {
  platform_print("samples=");
  print_number(samples, 1);
  if (cost->count > 0) {
    print_cost("", (cost->sum + cost->count / 2) / cost->count);
    print_cost("_min", cost->min);
    print_cost("_max", cost->max);
  }
  if (cost->stack_bytes > 0) {
    platform_print(" stack_bytes=");
    print_number(cost->stack_bytes, 1);
  }
  platform_print("\n");
}

/* Writes the guards and fills the tensor with `fill`. */
static void prepare(const struct runner_tensor *tensors, size_t count, uint8_t fill) {
  size_t i;
  size_t k;
  for (i = 0; i < count; i++) {
    for (k = 0; k < kGuardBytes; k++) {
      tensors[i].buffer[k] = kGuardByte;
      tensors[i].buffer[kGuardBytes + tensors[i].bytes + k] = kGuardByte;
    }
    for (k = 0; k < tensors[i].bytes; k++) {
      tensors[i].buffer[kGuardBytes + k] = fill;
    }
  }
}

/* The first tensor with a changed guard, or NULL. */
static const struct runner_tensor *overrun(const struct runner_tensor *tensors, size_t count) {
  size_t i;
  size_t k;
  for (i = 0; i < count; i++) {
    const uint8_t *const after = tensors[i].buffer + kGuardBytes + tensors[i].bytes;
    for (k = 0; k < kGuardBytes; k++) {
      if (tensors[i].buffer[k] != kGuardByte || after[k] != kGuardByte) {
        return &tensors[i];
      }
    }
  }
  return NULL;
}

/* FNV-1a over the tensors: stands for their content when two moments are compared. */
static uint64_t hash_of(const struct runner_tensor *tensors, size_t count) {
  uint64_t hash = 14695981039346656037u;
  size_t i;
  size_t k;
  for (i = 0; i < count; i++) {
    for (k = 0; k < tensors[i].bytes; k++) {
      hash = (hash ^ tensors[i].buffer[kGuardBytes + k]) * 1099511628211u;
    }
  }
  return hash;
}

static size_t size_of(const struct runner_tensor *tensors, size_t count) {
  size_t bytes = 0;
  size_t i;
  for (i = 0; i < count; i++) {
    bytes += tensors[i].bytes;
  }
  return bytes;
}

/* One inference into outputs that hold `fill` before; its cost is counted if `cost` is given. */
static int infer(const struct runner_module *m, uint8_t fill, struct cost *cost) {
  const struct runner_tensor *tensor;
  uint64_t begin;
  uint64_t end;
  int32_t status;
  prepare(m->outputs, m->num_outputs, fill);
  begin = platform_counter_begin();
  status = m->run();
  end = platform_counter_end();
  if (status != 0) {
    return complain(kCheckFailed, m->name, "the run function reports failure");
  }
  tensor = overrun(m->outputs, m->num_outputs);
  if (tensor == NULL) {
    tensor = overrun(m->inputs, m->num_inputs);
  }
  if (tensor != NULL) {
    return complain(kCheckFailed, tensor->name, "bytes next to this tensor were overwritten");
  }
  if (cost != NULL) {
    const uint64_t spent = platform_counter_cost(begin, end);
    cost->min = cost->count == 0 || spent < cost->min ? spent : cost->min;
    cost->max = spent > cost->max ? spent : cost->max;
    cost->sum += spent;
    cost->count++;
  }
  return kOk;
}

/* All inferences of the sample that the input buffers hold. Each starts from other bytes in the
 * output buffers, so that an output which is not written shows as a difference. */
static int run_sample(const struct runner_module *m, uint32_t repetitions, struct cost *cost) {
  const uint64_t given = hash_of(m->inputs, m->num_inputs);
  uint64_t first;
  size_t stack_bytes;
  uint32_t i;
  int status;
  if (m->state != NULL) {
    m->state(kRemember);
  }
  platform_stack_mark();
  status = infer(m, 0x5a, NULL);
  stack_bytes = platform_stack_used();
  if (status != kOk) {
    return status;
  }
  if (stack_bytes == SIZE_MAX) {
    return complain(kCheckFailed, m->name, "the stack overflowed");
  }
  if (hash_of(m->inputs, m->num_inputs) != given) {
    return complain(kCheckFailed, m->name, "the inputs were changed");
  }
  cost->stack_bytes = stack_bytes > cost->stack_bytes ? stack_bytes : cost->stack_bytes;
  first = hash_of(m->outputs, m->num_outputs);
  for (i = 0; i < repetitions; i++) {
    if (m->state != NULL) {
      m->state(kGoBack);
    }
    status = infer(m, (uint8_t)(0xa5 + i), cost);
    if (status != kOk) {
      return status;
    }
    if (hash_of(m->outputs, m->num_outputs) != first) {
      return complain(kCheckFailed, m->name, "a second inference gives other outputs");
    }
  }
  return kOk;
}

/* Reads or writes the tensors of one sample; 0 or -1. */
static int transfer(platform_file file, const struct runner_tensor *tensors, size_t count,
                    int is_write) {
  size_t i;
  for (i = 0; i < count; i++) {
    uint8_t *const data = tensors[i].buffer + kGuardBytes;
    const int failed = is_write ? platform_write(file, data, tensors[i].bytes)
                                : platform_read(file, data, tensors[i].bytes);
    if (failed != 0) {
      return -1;
    }
  }
  return 0;
}

static int run_samples(const struct runner_module *m, platform_file in, platform_file out,
                       uint64_t samples, uint32_t repetitions, struct cost *cost) {
  uint64_t i;
  for (i = 0; i < samples; i++) {
    int status;
    prepare(m->inputs, m->num_inputs, 0);
    if (transfer(in, m->inputs, m->num_inputs, 0) != 0) {
      return complain(kBadInput, "inputs", "cannot be read");
    }
    status = run_sample(m, repetitions, cost);
    if (status != kOk) {
      return status;
    }
    if (transfer(out, m->outputs, m->num_outputs, 1) != 0) {
      return complain(kUnwritable, "outputs", "cannot be written");
    }
  }
  return kOk;
}

/* Checks the size of the inputs and runs them; `in` is open. */
static int run_file(const struct runner_module *m, platform_file in, const char *out_path,
                    uint32_t repetitions) {
  const uint64_t sample_bytes = size_of(m->inputs, m->num_inputs);
  const int64_t bytes = platform_size(in);
  struct cost cost = {0, 0, 0, 0, 0};
  platform_file out;
  uint64_t samples;
  int status;
  if (sample_bytes == 0) {
    samples = bytes == 0 ? 1 : 0; /* a module without inputs has one sample, of no bytes */
  } else {
    samples = bytes > 0 && (uint64_t)bytes % sample_bytes == 0 ? (uint64_t)bytes / sample_bytes : 0;
  }
  if (samples == 0) {
    return complain(kBadInput, "inputs", "the size of the file is no multiple of a sample's");
  }
  out = platform_open_to_write(out_path);
  if (out < 0) {
    return complain(kUnwritable, out_path, "cannot be opened for writing");
  }
  status = run_samples(m, in, out, samples, repetitions, &cost);
  if (platform_close(out) != 0 && status == kOk) {
    status = complain(kUnwritable, out_path, "cannot be written");
  }
  if (status == kOk) {
    print_result(samples, &cost);
  }
  return status;
}

/* A decimal number from 1 to 999,999, or 0 for anything else. */
static uint32_t parse_count(const char *text) {
  uint32_t value = 0;
  for (; *text >= '0' && *text <= '9' && value < 100000; text++) {
    value = value * 10 + (uint32_t)(*text - '0');
  }
  return *text == '\0' ? value : 0;
}

int main(int argc, char **argv) {
  const uint32_t repetitions = argc > 3 ? parse_count(argv[3]) : 1;
  platform_file in;
  int status;
  if (argc < 3 || argc > 4 || repetitions == 0) {
    return complain(kBadInput, "usage", "runner INPUTS.bin OUTPUTS.bin [REPETITIONS]");
  }
  if (platform_counter_start() != 0) {
    return complain(kBadCounter, "counter", "2,000,000 instructions do not count as 2,000,000");
  }
  in = platform_open_to_read(argv[1]);
  if (in < 0) {
    return complain(kBadInput, argv[1], "cannot be opened");
  }
  status = run_file(&runner_module, in, argv[2], repetitions);
  (void)platform_close(in);
  return status;
}
