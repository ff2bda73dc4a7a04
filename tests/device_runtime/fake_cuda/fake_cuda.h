// A stand-in for NVIDIA's driver, for tests: its "GPU" memory is the host's, streams run in order when they
// are synchronised, graphs record and replay, and "PTX" names functions of this library. Found in place of
// the real libcuda.so.1 by the library search path of the test programs alone.
//
// What it does is set by environment variables, read at the first call of cuInit:
//   FAKE_CUDA_DEVICES=N       GPUs; default 1. 0: cuInit finds none
//   FAKE_CUDA_VERSION=12040   that the driver claims
//   FAKE_CUDA_CAPABILITY=80   of every GPU
//   FAKE_CUDA_MEMORY=BYTES    of every GPU; default 1 GiB
//   FAKE_CUDA_FAULT=N         the Nth kernel executed (from 1) faults with an illegal address
//   FAKE_CUDA_HANG=N          the Nth kernel executed never ends
//   FAKE_CUDA_SILENT=1        cuInit never returns
//   FAKE_CUDA_NO_CAPTURE=1    streams cannot be captured
//   FAKE_CUDA_GRAPHS=N        there is memory for N executable graphs at a time; default: for any number
//
// "PTX" is text of lines "entry NAME"; a line "bad" makes the JIT fail with a log. The entries that it knows:
//   add_one(in, out, n)               out[i] = in[i] + 1, i < n, by blocks x threads; hangs if in[0] > 1e6
//   scale(in, weights, out, n)        out[i] = in[i] * weights[i]; faults if in[0] < -1000
//   accumulate(in, out, n, iteration) out[i] += in[i] * iteration
//   fill_blocks(out, n)               out[block] = the number of threads, block < n
//   zero(out, n)                      out[i] = 0
//   copy(from, to, n, threads)        16 bytes each
//   chain_fp32(out, iterations, one)  out[i] = what that chain of benchmarks/gpu/peak_kernels.h sums up to
//   chain_tf32, chain_fp16, chain_bf16  likewise
#pragma once

#include <cstdint>

/// What has been called so far, for tests in the same process.
struct FakeCudaCounters {
  uint64_t uploads;  ///< copies to the device outside of graphs
  uint64_t uploaded_bytes;
  uint64_t graph_launches;
  uint64_t kernels;          ///< executed
  uint64_t allocated_bytes;  ///< on the device now
  uint64_t modules;          ///< loaded now
  uint64_t graphs;           ///< executable ones now
};
/// Found by dlsym in the loaded library.
extern "C" FakeCudaCounters fake_cuda_counters();
