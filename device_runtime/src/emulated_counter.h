/*
 * How a program under qemu-user asks gantry's plugin (device_runtime/qemu/count_instructions.c) what its
 * thread has executed: by the system call lseek(descriptor, GANTRY_COUNTER_OFFSET, GANTRY_COUNTER_WHENCE),
 * which every Linux refuses with EINVAL and nothing else happens. Where there is the plugin, it writes the
 * number of instructions that the calling thread has executed so far, those of the call included, into the
 * first 8 bytes of the file behind that descriptor, little-endian, before the call returns: a program and its
 * emulator share their descriptors. No path and no memory has to be agreed on, and a fork counts for itself.
 *
 * In C too: the plugin is.
 */
#ifndef GANTRY_EMULATED_COUNTER_H
#define GANTRY_EMULATED_COUNTER_H

#define GANTRY_COUNTER_OFFSET 0x67616e747279696eLL /* "gantryin" */
#define GANTRY_COUNTER_WHENCE 0x7374               /* "st"; above every SEEK_… */

#endif
