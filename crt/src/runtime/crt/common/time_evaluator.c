/* Measures a function as a host asks for it. */
#include <string.h>
#include <tvm/runtime/crt/internal/common/bytes.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/time_evaluator.h>
#include <tvm/runtime/crt/platform.h>

enum { kMaxRepeat = 4096, kMaxNumber = 1 << 30, kMaxZeroTimes = 10 };

/* No module has this index with the flag. */
const TVMFunctionHandle kTVMTimeEvaluatorHandle = (TVMFunctionHandle)(uintptr_t)0xffff8000u;

static struct {
  TVMFunctionHandle function; /* NULL: nothing asked for */
  int64_t number;
  int64_t repeat;
  int64_t min_repeat_ms;
} wanted;

void TVMTimeEvaluator_Reset(void) {
  memset(&wanted, 0, sizeof wanted);
}

int TVMTimeEvaluator_Create(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                            int *ret_tcode, void *resource_handle) {
  TVMFunctionHandle function;
  int code;
  int i;
  (void)resource_handle;
  if (num_args < 7) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  for (i = 2; i < 7; i++) {
    if (type_codes[i] != kTVMArgInt) {
      return kTvmErrorFunctionCallWrongArgType;
    }
  }
  if (args[4].v_int64 < 1 || args[4].v_int64 > kMaxNumber || args[5].v_int64 < 1 ||
      args[5].v_int64 > kMaxRepeat) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  code = TVMModGetFunction(args[0].v_handle, args[1].v_str, 0, &function);
  if (code != 0) {
    return code;
  }
  wanted.function = function;
  wanted.number = args[4].v_int64;
  wanted.repeat = args[5].v_int64;
  wanted.min_repeat_ms = args[6].v_int64;
  ret_value[0].v_handle = kTVMTimeEvaluatorHandle;
  ret_tcode[0] = kTVMPackedFuncHandle;
  return 0;
}

/* Seconds that `number` calls take. */
static int measure(TVMValue *args, int *type_codes, int num_args, int64_t number, double *seconds) {
  TVMValue result;
  int result_tcode;
  int64_t i;
  int code = (int)TVMPlatformBeforeMeasurement();
  if (code == 0) {
    code = (int)TVMPlatformTimerStart();
  }
  if (code != 0) {
    return code;
  }
  for (i = 0; code == 0 && i < number; i++) {
    code =
        TVMPlainFunction_Call(wanted.function, args, type_codes, num_args, &result, &result_tcode);
  }
  /* The timer is stopped after a failure too: it would not start again. */
  {
    const int stop_code = (int)TVMPlatformTimerStop(seconds);
    const int after_code = (int)TVMPlatformAfterMeasurement();
    code = code != 0 ? code : stop_code;
    return code != 0 ? code : after_code;
  }
}

/* One mean: with more and more calls, until they take as long as was asked for; a timer that shows
 * nothing over and over is taken at its word. */
static int measure_mean(TVMValue *args, int *type_codes, int num_args, double *mean) {
  const double wanted_seconds = (double)wanted.min_repeat_ms / 1000.0;
  int64_t number = wanted.number;
  double seconds = 0.0;
  int zero_times = 0;
  for (;;) {
    const int code = measure(args, type_codes, num_args, number, &seconds);
    if (code != 0) {
      return code;
    }
    zero_times += seconds <= 0.0;
    if (seconds >= wanted_seconds || number > kMaxNumber / 2 || zero_times == kMaxZeroTimes) {
      *mean = seconds / (double)number;
      return 0;
    }
    number *= 2;
  }
}

static void put_double(uint8_t *to, double value) {
  uint64_t bits;
  int i;
  memcpy(&bits, &value, sizeof bits);
  for (i = 0; i < 8; i++) {
    to[i] = (uint8_t)(bits >> (8 * i));
  }
}

int TVMTimeEvaluator_Call(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                          int *ret_tcode) {
  DLDevice cpu;
  TVMByteArray *times;
  void *block = NULL;
  uint8_t *bytes;
  int64_t i;
  int code;
  if (wanted.function == NULL) {
    return kTvmErrorTimeEvaluatorBadHandle;
  }
  cpu.device_type = kDLCPU;
  cpu.device_id = 0;
  code =
      (int)TVMMemoryAllocate(sizeof *times + (size_t)wanted.repeat * sizeof(double), cpu, &block);
  if (code != 0) {
    return code;
  }
  times = block;
  bytes = (uint8_t *)(times + 1);
  for (i = 0; code == 0 && i < wanted.repeat; i++) {
    double mean = 0.0;
    code = measure_mean(args, type_codes, num_args, &mean);
    put_double(bytes + 8 * i, mean);
  }
  if (code != 0) {
    (void)TVMPlatformMemoryFree(block, cpu);
    return code;
  }
  times->data = (const char *)bytes;
  times->size = (size_t)wanted.repeat * sizeof(double);
  ret_value[0].v_handle = times;
  ret_tcode[0] = kTVMBytes;
  return 0;
}
