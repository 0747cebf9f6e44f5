/* What the application has for modules with commands of an Ethos-U: TVM's interface. */
#ifndef TVM_ETHOSU_RUNTIME_H_
#define TVM_ETHOSU_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

int32_t TVMEthosULaunch(void *context, void *commands, size_t bytes, uint64_t *addresses,
                        size_t *sizes, int count);
int32_t TVMDeviceEthosUActivate(void *context);
int32_t TVMDeviceEthosUOpen(void *context);
int32_t TVMDeviceEthosUClose(void *context);
int32_t TVMDeviceEthosUDeactivate(void *context);

#endif
