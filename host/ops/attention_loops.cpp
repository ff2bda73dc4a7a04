#include "host/ops/attention_loops.h"

#include <algorithm>
#include <limits>

#include "host/graph/shape_guess.h"
#include "host/ops/gemm.h"
#include "host/support/divide.h"

namespace gantry {
namespace {

/// Keys that one block holds scores of, at most: those of 32 queries fill a usual first-level cache.
constexpr int64_t kKeyBlock = 256;
/// Up to so many keys make a single block.
constexpr int64_t kSingleBlock = 384;
/// With room for fewer keys, a block has fewer queries.
constexpr int64_t kLeastKeyBlock = 128;
/// Rows of local buffers as long as a block of queries, beside packed queries, scores and partial results.
constexpr int64_t kRowsOfMaxima = 5;
/// Of local buffers: sums of a tile.
constexpr int64_t kTileBytes = 4 << 10;
/// Rows of the result that are summed at once.
constexpr int64_t kResultRows = 8;
/// Maxima begin here, not at -inf: masked by -inf, all keys of a block have no weight, and a query sees those
/// of other blocks. A score that masks may be this number itself.
constexpr double kLowest = std::numeric_limits<float>::lowest();

/// exp of less is below the smallest normal number.
constexpr double kVanishing = -87.0;

Expr f32(double value) {
  return float_imm(DType::kF32, value);
}

std::optional<int64_t> constant(const Expr& e) {
  const auto* imm = e.as<IntImmNode>();
  return imm ? std::optional<int64_t>(imm->value) : std::nullopt;
}

class Nest {
 public:
  Nest(const AttentionLoops& spec, LoopBuilder& builder) : s_(spec), b_(builder) {
    lanes_ = spec.lanes;
    const int64_t queries = constant(spec.queries).value_or(guess::kLong);
    vectors_ = queries > lanes_ && keys_that_fit(2 * lanes_, spec.width) >= kLeastKeyBlock ? 2 : 1;
    block_ = vectors_ * lanes_;
    key_rows_ = std::max<int64_t>(1, std::min<int64_t>(12, (spec.registers - vectors_ - 2) / vectors_));
    feature_lanes_ = lanes_;
    while (spec.width % feature_lanes_ != 0) feature_lanes_ /= 2;
    const auto keys = constant(spec.keys);
    single_ = keys && *keys <= std::min(kSingleBlock, keys_that_fit(block_, 0));
    key_block_ = single_ ? *keys : std::min(kKeyBlock, keys_that_fit(block_, spec.width));
    key_rows_ = std::min(key_rows_, key_block_);
    whole_ = constant(spec.queries) && queries >= block_;
  }

  void build() {
    const Expr blocks = floordiv(s_.queries + (block_ - 1), block_);
    Expr tasks = blocks;
    for (const Expr& extent : s_.batch) tasks = tasks * extent;
    b_.loop(
        "task", tasks, [&](const Expr& task) { one_task(task, blocks); }, LoopKind::kParallel);
  }

 private:
  using Body = std::function<Stmt(Expr)>;

  /// Features whose sums are in registers together: neighbouring vectors, of so many lanes.
  struct Strip {
    int64_t first = 0, width = 0;
    std::vector<int64_t> lanes;
  };

  /// All features, in whole vectors as far as there are such; strips of the same vectors where these divide.
  std::vector<Strip> strips() const {
    std::vector<int64_t> vectors;
    for (int64_t left = s_.width, lanes = lanes_; left > 0; left -= lanes) {
      while (lanes > left) lanes /= 2;
      vectors.push_back(lanes);
    }
    const auto all = static_cast<int64_t>(vectors.size());
    const int64_t most = std::max<int64_t>(1, (s_.registers - 2) / (kResultRows + 1));
    int64_t count = ceil_div(all, most);
    for (int64_t each = most; each >= 2; --each) {
      if (all % each != 0 || vectors.front() != vectors.back()) continue;
      count = all / each;
      break;
    }
    std::vector<Strip> found(static_cast<size_t>(count));
    for (int64_t i = 0, at = 0; i < all; ++i) {
      Strip& strip = found[static_cast<size_t>(i * count / all)];
      const int64_t lanes = vectors[static_cast<size_t>(i)];
      if (strip.lanes.empty()) strip.first = at;
      strip.lanes.push_back(lanes);
      strip.width += lanes;
      at += lanes;
    }
    return found;
  }
  static bool all_alike(const std::vector<Strip>& strips) {
    return std::ranges::all_of(strips, [&](const Strip& strip) { return strip.lanes == strips[0].lanes; });
  }

  /// Keys whose scores for so many queries fit on the stack, beside results of so many features.
  int64_t keys_that_fit(int64_t queries, int64_t partial) const {
    const int64_t row = queries * byte_width(DType::kF32);
    // Strips that differ have sums of their own.
    const int64_t apart = all_alike(strips()) ? 0 : kResultRows * s_.width * byte_width(DType::kF32);
    return (kMaxStackBytes - kTileBytes - apart) / row - s_.depth - partial - kRowsOfMaxima;
  }

  /// body(j) for `count` vectors of `lanes` elements, written out.
  Stmt each_vector(int64_t count, int64_t lanes, const Body& body) const {
    Expr v = make_var("v"), lane = make_var("lane");
    return for_loop(v, 0, count, LoopKind::kUnrolled,
                    for_loop(lane, 0, lanes, LoopKind::kVectorized, body(v * lanes + lane)));
  }
  Stmt each_query_vector(const Body& body) const { return each_vector(vectors_, lanes_, body); }
  static Stmt serial(const char* name, const Expr& extent, const Body& body) {
    Expr var = make_var(name);
    return for_loop(var, 0, extent, LoopKind::kSerial, body(var));
  }
  static Stmt unrolled(const char* name, int64_t extent, const Body& body) {
    Expr var = make_var(name);
    return for_loop(var, 0, extent, LoopKind::kUnrolled, body(var));
  }
  static Stmt bind(const char* name, const Expr& value, const Body& body) {
    Expr var = make_var(name, value.type().dtype);
    return let(var, value, body(var));
  }

  void one_task(const Expr& task, const Expr& blocks) {
    const std::vector<Expr> index = ops::unflatten(floordiv(task, blocks), s_.batch);
    auto base = [&](const AttentionOperand& operand) {
      Expr at = operand.offset;
      for (size_t i = 0; i < index.size(); ++i) at = at + index[i] * operand.batch[i];
      return at;
    };
    // The last block overlaps the one before it instead of going beyond the end.
    Expr first = mod(task, blocks) * block_;
    if (!whole_ || *constant(s_.queries) % block_ != 0) first = max(Expr(0), min(first, s_.queries - block_));
    packed_ = b_.local("query", DType::kF32, s_.depth * block_);
    scores_ = b_.local("scores", DType::kF32, key_block_ * block_);
    sums_ = b_.local("sums", DType::kF32, block_);
    tops_ = b_.local("tops", DType::kF32, block_);
    factors_ = b_.local("factors", DType::kF32, block_);
    if (!single_) {
      running_top_ = b_.local("running_top", DType::kF32, block_);
      running_sum_ = b_.local("running_sum", DType::kF32, block_);
      partial_ = b_.local("partial", DType::kF32, block_ * s_.width);
    }
    b_.let("first", first, [&](const Expr& first_query) {
      first_ = first_query;
      b_.let("query_at", base(s_.query) + first_ * s_.query.row, [&](const Expr& q) {
        b_.let("key_at", base(s_.key), [&](const Expr& k) {
          b_.let("value_at", base(s_.value), [&](const Expr& v) {
            b_.let("result_at", base(s_.result) + first_ * s_.result.row, [&](const Expr& r) {
              for (const AttentionOperand& bias : s_.biases)
                bias_at_.push_back(base(bias) + first_ * bias.row);
              result_at_ = r;
              pack_queries(q);
              if (single_) {
                single_block(k, v);
              } else {
                several_blocks(k, v);
              }
            });
          });
        });
      });
    });
  }

  // packed[d][i] = scale * query[i][d]
  void pack_queries(const Expr& at) {
    auto pack = [&](bool clamped) {
      return serial("d", s_.depth, [&](const Expr& d) {
        return each_query_vector([&](const Expr& i) {
          const Expr row = clamped ? min(i, s_.queries - 1) : i;
          return store(packed_, d * block_ + i,
                       load(b_.input(0), at + row * s_.query.row + d) * f32(s_.scale));
        });
      });
    };
    if (whole_) return b_.emit(pack(false));
    if (constant(s_.queries)) return b_.emit(pack(true));
    b_.emit(if_stmt(ge(s_.queries, block_), pack(false), pack(true)));
  }

  // scores[j][i] = packed[:][i] * key[j][:] + biases, for `rows` keys from `tile`
  Stmt score_tile(const Expr& tile, int64_t rows, const Expr& first_key, const Expr& at) const {
    const Buffer sums = local("products", rows * block_);
    Stmt clear = unrolled("r", rows, [&](const Expr& r) {
      return each_query_vector([&](const Expr& i) { return store(sums, r * block_ + i, f32(0)); });
    });
    Stmt products = serial("d", s_.depth, [&](const Expr& d) {
      return unrolled("r", rows, [&](const Expr& r) {
        const Expr element = load(b_.input(1), at + (first_key + tile + r) * s_.key.row + d);
        return bind("feature", element, [&](const Expr& feature) {
          return each_query_vector([&](const Expr& i) {
            const Expr sum = load(sums, r * block_ + i);
            return store(sums, r * block_ + i, sum + feature * load(packed_, d * block_ + i));
          });
        });
      });
    });
    Stmt write = unrolled("r", rows, [&](const Expr& r) {
      return each_query_vector([&](const Expr& i) {
        Expr score = load(sums, r * block_ + i);
        for (size_t n = 0; n < s_.biases.size(); ++n) {
          const AttentionOperand& bias = s_.biases[n];
          const Expr query = whole_ ? i : min(i, s_.queries - 1);
          const Expr value = load(b_.input(3 + static_cast<int>(n)),
                                  bias_at_[n] + query * bias.row + (first_key + tile + r) * bias.column);
          score = bias.chooses ? select(lt(value, f32(std::numeric_limits<double>::infinity())), value, score)
                               : score + value;
        }
        return store(scores_, (tile + r) * block_ + i, score);
      });
    });
    return allocate(sums, block({clear, products, write}));
  }

  /// Scores of `count` keys. The last tile overlaps the one before it.
  Stmt scores(const Expr& first_key, const Expr& count, const Expr& at) const {
    auto tiles = [&](int64_t rows) {
      return serial("tile", floordiv(count + (rows - 1), rows), [&](const Expr& t) {
        const auto known = constant(count);
        const Expr start = known && *known % rows == 0 ? t * rows : min(t * rows, count - rows);
        return bind("start", start, [&](const Expr& tile) { return score_tile(tile, rows, first_key, at); });
      });
    };
    if (constant(count)) return tiles(key_rows_);
    return if_stmt(ge(count, key_rows_), tiles(key_rows_), tiles(1));
  }

  // tops[i] = max over j, at least `start`
  Stmt maxima(const Expr& count, const std::function<Expr(Expr)>& start) const {
    Stmt clear = each_query_vector([&](const Expr& i) { return store(tops_, i, start(i)); });
    Stmt loop = serial("j", count, [&](const Expr& j) {
      return each_query_vector(
          [&](const Expr& i) { return store(tops_, i, max(load(tops_, i), load(scores_, j * block_ + i))); });
    });
    return block({clear, loop});
  }

  // scores[j][i] = exp(scores[j][i] - tops[i]); sums[i] = their sum
  Stmt exponentials(const Expr& count) const {
    Stmt clear = each_query_vector([&](const Expr& i) { return store(sums_, i, f32(0)); });
    Stmt loop = serial("j", count, [&](const Expr& j) {
      return each_query_vector([&](const Expr& i) {
        Expr power = make_var("power", DType::kF32);
        const Expr at = j * block_ + i;
        const Expr distance = load(scores_, at) - load(tops_, i);
        // Numbers too small to be normal would slow down every product that they take part in.
        const Expr value = select(lt(distance, f32(kVanishing)), f32(0), call(MathFn::kExp, {distance}));
        return let(power, value, block({store(scores_, at, power), store(sums_, i, load(sums_, i) + power)}));
      });
    });
    return block({clear, loop});
  }

  /// body(d) for the vectors of a strip, written out; d counts from its first feature.
  static Stmt each_feature(const Strip& strip, const Body& body) {
    std::vector<Stmt> vectors;
    int64_t at = 0;
    for (int64_t lanes : strip.lanes) {
      Expr lane = make_var("lane");
      vectors.push_back(for_loop(lane, 0, lanes, LoopKind::kVectorized, body(Expr(at) + lane)));
      at += lanes;
    }
    return block(std::move(vectors));
  }

  using Finish = std::function<Stmt(Expr row, Expr feature, Expr sum)>;
  /// Sums over the block's keys of score * value, by tiles of rows and features.
  Stmt weighted_values(const Expr& first_key, const Expr& count, const Expr& at, const Finish& finish) const {
    const int64_t rows = std::min(kResultRows, block_);
    const std::vector<Strip> all = strips();
    const Expr used = whole_ ? Expr(block_) : min(Expr(block_), s_.queries);
    return serial("row_tile", floordiv(used + (rows - 1), rows), [&](const Expr& t) {
      auto sums_of = [&](const Strip& strip, const Expr& first) {
        return weighted_strip(strip, first, rows, t * rows, first_key, count, at, finish);
      };
      if (all_alike(all)) {
        return serial("strip", static_cast<int64_t>(all.size()),
                      [&](const Expr& f) { return sums_of(all[0], f * all[0].width); });
      }
      std::vector<Stmt> each;
      for (const Strip& strip : all) each.push_back(sums_of(strip, strip.first));
      return block(std::move(each));
    });
  }

  /// Of `rows` rows from `row`, the features from `first`.
  Stmt weighted_strip(const Strip& strip, const Expr& first, int64_t rows, const Expr& row,
                      const Expr& first_key, const Expr& count, const Expr& at, const Finish& finish) const {
    const Buffer sums = local("weighted", rows * strip.width);
    auto each = [&](const std::function<Stmt(Expr, Expr)>& body) {
      return unrolled("r", rows, [&](const Expr& r) {
        return each_feature(strip, [&](const Expr& d) { return body(r, d); });
      });
    };
    Stmt clear = each([&](const Expr& r, const Expr& d) { return store(sums, r * strip.width + d, f32(0)); });
    Stmt products = serial("j", count, [&](const Expr& j) {
      return unrolled("r", rows, [&](const Expr& r) {
        return bind("weight", load(scores_, j * block_ + row + r), [&](const Expr& weight) {
          return each_feature(strip, [&](const Expr& d) {
            const Expr value = load(b_.input(2), at + (first_key + j) * s_.value.row + first + d);
            return store(sums, r * strip.width + d, load(sums, r * strip.width + d) + weight * value);
          });
        });
      });
    });
    Stmt write = each([&](const Expr& r, const Expr& d) {
      return finish(row + r, first + d, load(sums, r * strip.width + d));
    });
    return allocate(sums, block({clear, products, write}));
  }

  Stmt store_result(const Expr& row, const Expr& feature, const Expr& value) const {
    Stmt write = store(b_.result(0), result_at_ + row * s_.result.row + feature, value);
    return whole_ ? write : if_stmt(lt(row, s_.queries), write);
  }

  void single_block(const Expr& key_at, const Expr& value_at) {
    b_.emit(scores(0, s_.keys, key_at));
    b_.emit(maxima(s_.keys, [](const Expr&) { return f32(kLowest); }));
    b_.emit(exponentials(s_.keys));
    b_.emit(each_query_vector([&](const Expr& i) { return store(factors_, i, f32(1) / load(sums_, i)); }));
    b_.emit(weighted_values(0, s_.keys, value_at, [&](const Expr& row, const Expr& feature, const Expr& sum) {
      return store_result(row, feature, sum * load(factors_, row));
    }));
  }

  /// What weighted sums are multiplied by. Without keys there are no weights, and results are 0.
  Expr factor_of(const Expr& sum) const {
    const Expr factor = f32(1) / sum;
    return constant(s_.keys) ? factor : select(lt(Expr(0), s_.keys), factor, f32(0));
  }

  void several_blocks(const Expr& key_at, const Expr& value_at) {
    b_.emit(each_query_vector([&](const Expr& i) { return store(running_top_, i, f32(kLowest)); }));
    b_.emit(each_query_vector([&](const Expr& i) { return store(running_sum_, i, f32(0)); }));
    b_.emit(serial("n", block_ * s_.width / feature_lanes_, [&](const Expr& n) {
      return each_vector(1, feature_lanes_,
                         [&](const Expr& d) { return store(partial_, n * feature_lanes_ + d, f32(0)); });
    }));
    b_.loop("key_block", floordiv(s_.keys + (key_block_ - 1), key_block_), [&](const Expr& n) {
      b_.let("first_key", n * key_block_, [&](const Expr& first_key) {
        b_.let("count", min(Expr(key_block_), s_.keys - first_key),
               [&](const Expr& count) { b_.emit(one_of_several(first_key, count, key_at, value_at)); });
      });
    });
    b_.emit(each_query_vector(
        [&](const Expr& i) { return store(factors_, i, factor_of(load(running_sum_, i))); }));
    const Expr used = whole_ ? Expr(block_) : min(Expr(block_), s_.queries);
    b_.emit(serial("row", used, [&](const Expr& row) {
      return serial("n", s_.width / feature_lanes_, [&](const Expr& n) {
        return each_vector(1, feature_lanes_, [&](const Expr& d) {
          const Expr feature = n * feature_lanes_ + d;
          return store_result(row, feature, load(partial_, row * s_.width + feature) * load(factors_, row));
        });
      });
    }));
  }

  Stmt one_of_several(const Expr& first_key, const Expr& count, const Expr& key_at,
                      const Expr& value_at) const {
    Stmt correct = each_query_vector([&](const Expr& i) {
      return store(factors_, i, call(MathFn::kExp, {load(running_top_, i) - load(tops_, i)}));
    });
    Stmt powers = exponentials(count);
    Stmt advance = each_query_vector([&](const Expr& i) {
      return block({store(running_sum_, i, load(running_sum_, i) * load(factors_, i) + load(sums_, i)),
                    store(running_top_, i, load(tops_, i))});
    });
    Stmt add = weighted_values(first_key, count, value_at,
                               [&](const Expr& row, const Expr& feature, const Expr& sum) {
                                 const Expr at = row * s_.width + feature;
                                 return store(partial_, at, load(partial_, at) * load(factors_, row) + sum);
                               });
    Stmt top = maxima(count, [&](const Expr& i) { return load(running_top_, i); });
    return block({scores(first_key, count, key_at), top, correct, powers, advance, add});
  }

  Buffer local(const std::string& name, int64_t count) const {
    auto buffer = std::make_shared<BufferNode>();
    buffer->name = b_.unique_name(name);
    buffer->dtype = DType::kF32;
    buffer->element_count = count;
    buffer->scope = BufferScope::kLocal;
    buffer->alignment = 64;
    return buffer;
  }

  const AttentionLoops& s_;
  LoopBuilder& b_;
  int64_t lanes_, vectors_, block_, key_rows_, feature_lanes_, key_block_;
  bool single_ = false;  ///< all keys are one block
  bool whole_ = false;   ///< there are queries enough for a block
  Buffer packed_, scores_, sums_, tops_, factors_, running_top_, running_sum_, partial_;
  Expr first_, result_at_;
  std::vector<Expr> bias_at_;
};

}  // namespace

void AttentionLoops::build(LoopBuilder& builder) const {
  Nest(*this, builder).build();
}

}  // namespace gantry
