/* What an image of mlf_firmware was built from; both are empty unless it was asked to carry that
   (stamp = 1, or Bazel's --stamp). */
#ifndef MLF_FIRMWARE_H_
#define MLF_FIRMWARE_H_

#ifdef __cplusplus
extern "C" {
#endif

extern const char mlf_firmware_version[]; /* Bazel's --embed_label */
extern const char mlf_firmware_commit[];  /* STABLE_GIT_COMMIT of the workspace's status */

#ifdef __cplusplus
}
#endif

#endif
