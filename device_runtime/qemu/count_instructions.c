/*
 * A plugin for qemu-aarch64 (user mode) by which a gantry-device under it counts the instructions that its
 * threads execute; device_runtime/src/emulated_counter.h says how it asks.
 *
 *   qemu-aarch64 -plugin libgantry_qemu_count.so gantry-device serve
 *
 * Each thread has a counter of its own: additions of several to one would be lost. The declarations of QEMU's
 * plugin interface are repeated here because distributions do not ship its header; they are the same in its
 * versions 1 (of QEMU 4.2 to 8.2) and 2 (which QEMU 9 takes as the oldest).
 */
#include <stdint.h>
#include <unistd.h>

#include "device_runtime/src/emulated_counter.h"

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info_t;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*translated_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb* block);
typedef void (*executed_callback)(unsigned int thread, void* data);
typedef void (*system_call_callback)(qemu_plugin_id_t id, unsigned int thread, int64_t number, uint64_t a1,
                                     uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                                     uint64_t a7, uint64_t a8);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_callback callback);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, executed_callback callback,
                                                 enum qemu_plugin_cb_flags flags, void* data);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, system_call_callback callback);

#ifndef GANTRY_QEMU_PLUGIN_VERSION
#define GANTRY_QEMU_PLUGIN_VERSION 1
#endif
#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = GANTRY_QEMU_PLUGIN_VERSION;

/* Of AArch64, and of all other architectures with Linux's generic table. */
enum { kLseek = 62 };
/* QEMU numbers threads that live at the same time differently, from 0 on. */
enum { kThreads = 4096 };
static struct { _Alignas(64) uint64_t executed; /* written by its thread alone */ } counters[kThreads];

static void executed(unsigned int thread, void* instructions) {
  counters[thread % kThreads].executed += (uintptr_t)instructions;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, executed, QEMU_PLUGIN_CB_NO_REGS,
                                       (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void system_call(qemu_plugin_id_t id, unsigned int thread, int64_t number, uint64_t a1, uint64_t a2,
                        uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != kLseek || a2 != GANTRY_COUNTER_OFFSET || (uint32_t)a3 != GANTRY_COUNTER_WHENCE) return;
  const uint64_t count = counters[thread % kThreads].executed;
  if (pwrite((int)a1, &count, sizeof count, 0) != (ssize_t)sizeof count)
    return; /* whoever asks finds no new number */
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, system_call);
  return 0;
}
