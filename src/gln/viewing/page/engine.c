/* The arithmetic of GLN for a browser: what engine.js calls on arrays in the memory of this module.

   Values of nodes are [n, c] and of pairs [m, c], row by row; widths are multiples of 4. Pairs are one list, sorted by
   source, then by target. Compiled to engine.wasm by the command in recipes/play_engine.py. */

#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORT(name) __attribute__((export_name(#name)))
typedef v128_t four;

extern float logarithm(float x) __attribute__((import_module("js"), import_name("log")));

static inline four load(const float *at) { return wasm_v128_load(at); }
static inline void store(float *at, four x) { wasm_v128_store(at, x); }
static inline four every(float x) { return wasm_f32x4_splat(x); }
static inline four add(four a, four b) { return wasm_f32x4_add(a, b); }
static inline four sub(four a, four b) { return wasm_f32x4_sub(a, b); }
static inline four mul(four a, four b) { return wasm_f32x4_mul(a, b); }
static inline four clip(four x, float low, float high) {
  return wasm_f32x4_pmin(wasm_f32x4_pmax(x, every(low)), every(high));
}
static inline float sum(four x) {
  x = add(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  x = add(x, wasm_i32x4_shuffle(x, x, 1, 0, 3, 2));
  return wasm_f32x4_extract_lane(x, 0);
}

/* e^x as 2^n 2^f with |f| ≤ 1/2; relative error below 2e-7. */
static inline four exponential(four x) {
  x = clip(x, -87.0f, 88.0f);
  four n = wasm_f32x4_nearest(mul(x, every(1.44269504f)));
  four f = sub(sub(x, mul(n, every(0.693359375f))), mul(n, every(-2.12194440e-4f)));
  four p = every(1.0f / 5040);
  const float terms[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
  for (int term = 0; term < 7; term++) p = add(mul(p, f), every(terms[term]));
  four power = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127)), 23);
  return mul(p, power);
}

/* y = x W + b, or y += x W + b; W is [in, out]. */
EXPORT(linear) void linear(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int more) {
  for (int row = 0; row < rows; row += 4) {
    int left = rows - row < 4 ? rows - row : 4;
    const float *a = x + row * in, *c = left > 1 ? a + in : a, *d = left > 2 ? a + 2 * in : a, *e = left > 3 ? a + 3 * in : a;
    for (int at = 0; at < out; at += 8) {
      int two = at + 8 <= out; /* the last may be a single four */
      four first = load(b + at), second = two ? load(b + at + 4) : first;
      four a0 = first, a1 = second, c0 = first, c1 = second, d0 = first, d1 = second, e0 = first, e1 = second;
      const float *weights = w + at;
      if (two) {
        for (int k = 0; k < in; k++, weights += out) {
          four w0 = load(weights), w1 = load(weights + 4), s = every(a[k]);
          a0 = add(a0, mul(s, w0)); a1 = add(a1, mul(s, w1)); s = every(c[k]);
          c0 = add(c0, mul(s, w0)); c1 = add(c1, mul(s, w1)); s = every(d[k]);
          d0 = add(d0, mul(s, w0)); d1 = add(d1, mul(s, w1)); s = every(e[k]);
          e0 = add(e0, mul(s, w0)); e1 = add(e1, mul(s, w1));
        }
      } else {
        for (int k = 0; k < in; k++, weights += out) {
          four w0 = load(weights);
          a0 = add(a0, mul(every(a[k]), w0)); c0 = add(c0, mul(every(c[k]), w0));
          d0 = add(d0, mul(every(d[k]), w0)); e0 = add(e0, mul(every(e[k]), w0));
        }
      }
      four firsts[] = {a0, c0, d0, e0}, seconds[] = {a1, c1, d1, e1};
      for (int r = 0; r < left; r++) {
        float *to = y + (row + r) * out + at;
        store(to, more ? add(load(to), firsts[r]) : firsts[r]);
        if (two) store(to + 4, more ? add(load(to + 4), seconds[r]) : seconds[r]);
      }
    }
  }
}

/* Layer norm of rows. */
EXPORT(normal) void normal(const float *x, const float *scale, const float *shift, float *y, int rows, int width) {
  for (int row = 0; row < rows; row++, x += width, y += width) {
    four total = every(0), square = every(0);
    for (int k = 0; k < width; k += 4) total = add(total, load(x + k));
    four mean = every(sum(total) / width);
    for (int k = 0; k < width; k += 4) {
      four away = sub(load(x + k), mean);
      square = add(square, mul(away, away));
    }
    four root = every(1 / __builtin_sqrtf(sum(square) / width + 1e-5f));
    for (int k = 0; k < width; k += 4)
      store(y + k, add(mul(mul(sub(load(x + k), mean), root), load(scale + k)), load(shift + k)));
  }
}

/* x Φ(x), with erf as a rational function fitted to 2e-9 on [0, 3.95]. */
EXPORT(gelu) void gelu(float *x, int count) {
  const float over[] = {4.744452349e-06f, 3.813581870e-04f, 3.835574642e-03f, 5.430189011e-02f, 1.847093271e-01f, 1.128379181f};
  const float under[] = {1.306993772e-03f, 1.544086234e-02f, 1.137988330e-01f, 4.970279145e-01f, 1.0f};
  for (int k = 0; k < count; k += 4) {
    four v = load(x + k), z = clip(mul(v, every(0.70710678f)), -3.95f, 3.95f), u = mul(z, z);
    four p = every(-1.347723269e-08f), q = every(6.366943048e-05f);
    for (int term = 0; term < 6; term++) p = add(mul(p, u), every(over[term]));
    for (int term = 0; term < 5; term++) q = add(mul(q, u), every(under[term]));
    store(x + k, mul(mul(every(0.5f), v), add(every(1), wasm_f32x4_div(mul(z, p), q))));
  }
}

/* What pairs first … read of their ends: l_i + r_j + f_i g_j + a slope + shift; sources hold l, f and targets r, g. */
EXPORT(ends) void ends(const float *sources, const float *targets, const float *a, const float *slope, const float *shift,
                       const int *source, const int *target, float *z, int first, int rows, int width) {
  for (int row = 0; row < rows; row++, z += width) {
    const float *i = sources + source[first + row] * 2 * width, *j = targets + target[first + row] * 2 * width;
    four own = every(a[first + row]);
    for (int k = 0; k < width; k += 4) {
      four both = add(add(load(i + k), load(j + k)), mul(load(i + width + k), load(j + width + k)));
      store(z + k, add(both, add(mul(own, load(slope + k)), load(shift + k))));
    }
  }
}

/* Nodes hear their neighbours: heard_i += a root_i root_j 2σ(gate) v_j, head by head. */
EXPORT(hear) void hear(const float *gate, const float *a, const float *root, const float *values, const int *source,
                       const int *target, float *heard, int first, int rows, int heads, int padded, int width) {
  int each = width / heads;
  for (int row = 0; row < rows; row++) {
    int i = source[first + row], j = target[first + row];
    float strong = 2 * a[first + row] * root[i] * root[j];
    for (int head = 0; head < heads; head++) {
      four open = exponential(every(-gate[row * padded + head]));
      four weight = wasm_f32x4_div(every(strong), add(every(1), open));
      float *to = heard + i * width + head * each;
      const float *from = values + j * width + head * each;
      for (int k = 0; k < each; k += 4) store(to + k, add(load(to + k), mul(weight, load(from + k))));
    }
  }
}

/* Of four heads, each with its own four partial sums, the four sums. */
static inline four sums(four a, four b, four c, four d) {
  four ab = add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
  four cd = add(wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), wasm_i32x4_shuffle(c, d, 2, 6, 3, 7));
  return add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

/* The weighted sum over third nodes of what they say, for so many fours from `at` on. */
INLINE void gather(const float *read, const int *ik, const int *jk, const float *weight, int found, int width,
                          int each, int at, const int fours, four scale, float *out) {
  four mixed[8];
  int lane[8];
  for (int k = 0; k < fours; k++) {
    mixed[k] = every(0);
    lane[k] = (at + 4 * k) / each;
  }
  for (int t = 0; t < found; t++) {
    const float *first = read + ik[t] + 2 * width + at, *second = read + jk[t] + 3 * width + at;
#pragma unroll
    for (int k = 0; k < fours; k++)
      mixed[k] = add(mixed[k], mul(wasm_v128_load32_splat(weight + 4 * t + lane[k]), add(load(first + 4 * k), load(second + 4 * k))));
  }
  float shares[4];
  store(shares, scale);
  for (int k = 0; k < fours; k++) store(out + at + 4 * k, mul(mixed[k], every(shares[lane[k]])));
}

INLINE void mix_width(const float *read, const int *start, const int *source, const int *target, int *ik, int *jk,
                      float *weight, float *out, int first, int rows, const int width) {
  int each = width / 4, whole = 4 * width;
  for (int row = 0; row < rows; row++, out += width + 4) {
    int i = source[first + row], j = target[first + row], found = 0;
    for (int p = start[i], q = start[j]; p < start[i + 1] && q < start[j + 1];) { /* both rows ascend */
      int one = target[p], other = target[q];
      ik[found] = p * whole;
      jk[found] = q * whole;
      found += one == other;
      p += one <= other;
      q += other <= one;
    }
    four most = every(0);
    for (int t = 0; t < found; t++) {
      const float *query = read + ik[t], *key = read + jk[t] + width;
      four dots[4];
      for (int head = 0; head < 4; head++) {
        dots[head] = mul(load(query + head * each), load(key + head * each));
        for (int k = head * each + 4; k < (head + 1) * each; k += 4) dots[head] = add(dots[head], mul(load(query + k), load(key + k)));
      }
      four score = sums(dots[0], dots[1], dots[2], dots[3]);
      store(weight + 4 * t, score);
      most = wasm_f32x4_pmax(most, score);
    }
    four norm = exponential(sub(every(0), most));
    for (int t = 0; t < found; t++) {
      four share = exponential(sub(load(weight + 4 * t), most));
      store(weight + 4 * t, share);
      norm = add(norm, share);
    }
    four scale = wasm_f32x4_div(every(1), norm);
    int at = 0;
    for (; at + 32 <= width; at += 32) gather(read, ik, jk, weight, found, width, each, at, 8, scale, out);
    for (; at < width; at += 4) gather(read, ik, jk, weight, found, width, each, at, 1, scale, out);
    store(out + width, norm);
    for (int head = 0; head < 4; head++) out[width + head] = logarithm(out[width + head]);
    store(out + width, add(load(out + width), most));
  }
}

/* Pairs read pairs over third nodes, with four heads: read is [m, 4, 4, width / 4], out [rows, width + 4]. */
EXPORT(mix) void mix(const float *read, const int *start, const int *source, const int *target, int *ik, int *jk,
                     float *weight, float *out, int first, int rows, int width) {
  if (width == 32) mix_width(read, start, source, target, ik, jk, weight, out, first, rows, 32); /* known widths are faster */
  else if (width == 64) mix_width(read, start, source, target, ik, jk, weight, out, first, rows, 64);
  else mix_width(read, start, source, target, ik, jk, weight, out, first, rows, width);
}
