// Kernels written by hand as launches, for tests of their emulation.
#pragma once

#include <string>
#include <vector>

#include "host/loops/launch.h"

namespace gantry::test {

inline Buffer gpu_buffer(std::string name, DType dtype, Expr count,
                         BufferScope scope = BufferScope::kArgument) {
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->element_count = std::move(count);
  node->scope = scope;
  node->alignment = byte_width(dtype);
  return node;
}
inline Buffer shared_buffer(std::string name, DType dtype, int64_t count) {
  return gpu_buffer(std::move(name), dtype, Expr(count), BufferScope::kShared);
}
inline Buffer thread_buffer(std::string name, DType dtype, int64_t count) {
  return gpu_buffer(std::move(name), dtype, Expr(count), BufferScope::kLocal);
}

inline LoopKernel gpu_kernel(std::string name, std::vector<Buffer> inputs, std::vector<Buffer> outputs,
                             Stmt body, std::vector<std::string> symbols = {}) {
  LoopKernel kernel;
  kernel.name = std::move(name);
  kernel.input_count = static_cast<int>(inputs.size());
  kernel.arguments = std::move(inputs);
  kernel.arguments.insert(kernel.arguments.end(), outputs.begin(), outputs.end());
  kernel.symbols = std::move(symbols);
  kernel.body = std::move(body);
  return kernel;
}

/// The variables of a launch.
struct Grid {
  Expr x = make_var("bx"), y = make_var("by"), z = make_var("bz"), t = make_var("t");
  Stmt run(Expr blocks_x, Expr blocks_y, int64_t threads, Stmt body) const {
    return launch({x, y, z}, {std::move(blocks_x), std::move(blocks_y), Expr(1)}, t, threads,
                  std::move(body));
  }
  Stmt run(Expr blocks, int64_t threads, Stmt body) const {
    return run(std::move(blocks), Expr(1), threads, std::move(body));
  }
};

/// out[c, r] = in[r, c] for symbolic R and C, through tiles of 16 x 16 in shared memory.
inline LoopKernel transpose_kernel(bool with_barrier = true) {
  const Expr rows = symbol_var("R"), columns = symbol_var("C");
  const Buffer in = gpu_buffer("in", DType::kF32, rows * columns),
               out = gpu_buffer("out", DType::kF32, rows * columns);
  const Buffer tile = shared_buffer("tile", DType::kF32, 16 * 17);
  const Grid g;
  const Expr u = floordiv(g.t, 16), v = mod(g.t, 16);
  const Expr r = g.y * 16 + u, c = g.x * 16 + v, out_c = g.x * 16 + u, out_r = g.y * 16 + v;
  Stmt fetch = if_stmt(lt(r, rows) && lt(c, columns), store(tile, u * 17 + v, load(in, r * columns + c)));
  Stmt put = if_stmt(lt(out_r, rows) && lt(out_c, columns),
                     store(out, out_c * rows + out_r, load(tile, v * 17 + u)));
  Stmt body = allocate(tile, block({fetch, with_barrier ? barrier() : Stmt(), put}));
  return gpu_kernel("transpose", {in}, {out},
                    g.run(floordiv(columns + 15, 16), floordiv(rows + 15, 16), 256, body), {"R", "C"});
}

/// out[b] = sum of the N elements in[b, :], by 64 threads: strided sums, shuffles in each warp, shared memory
/// across warps.
inline LoopKernel row_sum_kernel(bool initialise_all = true) {
  const Expr rows = symbol_var("B"), n = symbol_var("N");
  const Buffer in = gpu_buffer("in", DType::kF32, rows * n), out = gpu_buffer("out", DType::kF32, rows);
  const Buffer sum = thread_buffer("sum", DType::kF32, 1), other = thread_buffer("other", DType::kF32, 1);
  const Buffer partial = shared_buffer("partial", DType::kF32, 2);
  const Grid g;
  const Expr i = make_var("i"), at = i * 64 + g.t;
  std::vector<Stmt> steps;
  steps.push_back(store(sum, 0, float_imm(DType::kF32, 0)));
  steps.push_back(for_loop(i, 0, floordiv(n + 63, 64), LoopKind::kSerial,
                           if_stmt(lt(at, n), store(sum, 0, load(sum, 0) + load(in, g.x * n + at)))));
  for (int mask = 16; mask > 0; mask /= 2) {
    steps.push_back(shuffle(other, 0, load(sum, 0), mask));
    steps.push_back(store(sum, 0, load(sum, 0) + load(other, 0)));
  }
  const Expr writes = initialise_all ? eq(mod(g.t, 32), 0) : eq(g.t, 0);
  steps.push_back(if_stmt(writes, store(partial, floordiv(g.t, 32), load(sum, 0))));
  steps.push_back(barrier());
  steps.push_back(if_stmt(eq(g.t, 0), store(out, g.x, load(partial, 0) + load(partial, 1))));
  Stmt body = allocate(sum, allocate(other, allocate(partial, block(std::move(steps)))));
  return gpu_kernel("row_sum", {in}, {out}, g.run(rows, 64, body), {"B", "N"});
}

/// C[M, N] = A[M, K] * B[K, N], all multiples of the tiles: 64 x 64 a block of 256 threads, 4 x 4 a thread in
/// vectors of 4, K in steps of 16.
inline LoopKernel matmul_kernel(int64_t m, int64_t n, int64_t k) {
  const Buffer a = gpu_buffer("a", DType::kF32, Expr(m * k)), b = gpu_buffer("b", DType::kF32, Expr(k * n)),
               c = gpu_buffer("c", DType::kF32, Expr(m * n));
  const Buffer a_tile = shared_buffer("a.tile", DType::kF32, 64 * 16),
               b_tile = shared_buffer("b.tile", DType::kF32, 16 * 64);
  const Buffer sums = thread_buffer("sums", DType::kF32, 16);
  const Grid g;
  const Expr ko = make_var("ko"), kk = make_var("kk");
  auto ramp = [](Expr base, int lanes) -> Expr {
    return std::make_shared<RampNode>(std::move(base), Expr(1), lanes);
  };
  auto broadcast = [](Expr value) -> Expr { return std::make_shared<BroadcastNode>(std::move(value), 4); };
  const Expr row = floordiv(g.t, 16) * 4, column = mod(g.t, 16) * 4;
  const Expr fetch_row = floordiv(g.t, 4), fetch_k = mod(g.t, 4) * 4;
  std::vector<Stmt> clear, multiply, put;
  for (int64_t i = 0; i < 4; ++i) {
    const Expr at = ramp(Expr(i * 4), 4);
    clear.push_back(store(sums, at, broadcast(float_imm(DType::kF32, 0))));
    multiply.push_back(store(sums, at,
                             load(sums, at) + broadcast(load(a_tile, (row + Expr(i)) * 16 + kk)) *
                                                  load(b_tile, ramp(kk * 64 + column, 4))));
    put.push_back(
        store(c, ramp((g.y * 64 + row + Expr(i)) * Expr(n) + g.x * 64 + column, 4), load(sums, at)));
  }
  Stmt fetch = block({
      store(a_tile, ramp(fetch_row * 16 + fetch_k, 4),
            load(a, ramp((g.y * 64 + fetch_row) * Expr(k) + ko * 16 + fetch_k, 4))),
      store(b_tile, ramp(floordiv(g.t, 16) * 64 + column, 4),
            load(b, ramp((ko * 16 + floordiv(g.t, 16)) * Expr(n) + g.x * 64 + column, 4))),
  });
  Stmt steps = block(
      {fetch, barrier(), for_loop(kk, 0, 16, LoopKind::kSerial, block(std::move(multiply))), barrier()});
  Stmt body = block({block(std::move(clear)), for_loop(ko, 0, Expr(k / 16), LoopKind::kSerial, steps),
                     block(std::move(put))});
  body = allocate(a_tile, allocate(b_tile, allocate(sums, body)));
  return gpu_kernel("matmul", {a, b}, {c}, g.run(Expr(n / 64), Expr(m / 64), 256, body));
}

}  // namespace gantry::test
