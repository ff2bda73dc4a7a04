/*
 * A plugin for qemu-aarch64 (user mode) that counts what a program executes: instructions, vector
 * multiply-adds, and loads and stores. Written for version 1 of QEMU's plugin interface (QEMU 4.2 to 8.2),
 * whose declarations are repeated here because distributions do not ship its header.
 *
 *   cc -O2 -shared -fPIC -o qemu_count.so qemu_count.c
 *   qemu-aarch64 -plugin ./qemu_count.so,out=counts.txt PROGRAM...
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t index);
extern const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* instruction);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb*));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* tb, enum qemu_plugin_op op,
                                                     void* ptr, uint64_t value);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void*),
                                           void* data);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

static char output[4096];
static uint64_t instructions, multiply_adds, memory_accesses;

/* fmla of vectors, by vector and by element; sdot, udot, smmla, bfmmla and bfdot count as one each too. */
static int is_multiply_add(uint32_t code) {
  return (code & 0xbfa0fc00u) == 0x0e20cc00u || (code & 0xbf80f400u) == 0x0f801000u || /* fmla */
         (code & 0xbfe0fc00u) == 0x0e400c00u || (code & 0xbfc0f400u) == 0x0f001000u || /* of f16 */
         (code & 0x9f20fc00u) == 0x0e009400u || (code & 0x9f00f400u) == 0x0f00e000u || /* sdot, udot */
         (code & 0xffe0fc00u) == 0x4e80a400u ||                                        /* smmla */
         (code & 0xffe0fc00u) == 0x6e40ec00u || (code & 0xbfe0fc00u) == 0x2e40fc00u;   /* bfmmla, bfdot */
}

static int is_memory_access(uint32_t code) {
  return (code & 0x0a000000u) == 0x08000000u;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  const size_t count = qemu_plugin_tb_n_insns(tb);
  uint64_t products = 0, accesses = 0;
  (void)id;
  for (size_t i = 0; i < count; ++i) {
    uint32_t code;
    memcpy(&code, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), sizeof code);
    products += (uint64_t)is_multiply_add(code);
    accesses += (uint64_t)is_memory_access(code);
  }
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &instructions, count);
  if (products)
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &multiply_adds, products);
  if (accesses)
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &memory_accesses, accesses);
}

static void finished(qemu_plugin_id_t id, void* data) {
  FILE* file = output[0] ? fopen(output, "w") : stderr;
  (void)id;
  (void)data;
  if (!file) return;
  fprintf(file, "%llu %llu %llu\n", (unsigned long long)instructions, (unsigned long long)multiply_adds,
          (unsigned long long)memory_accesses);
  if (file != stderr) fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc, char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "out=", 4) == 0 && strlen(argv[i]) < sizeof output + 4) strcpy(output, argv[i] + 4);
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, NULL);
  return 0;
}
