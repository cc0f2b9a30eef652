// One fused kernel of a whole operator graph, row by row: each input is read once, each output is
// written once, and what a later pass over the row needs again stays in the caches. The block
// ROW_PROGRAM is generated from the graph; the rest is the same for every graph.
#include <stdint.h>
#include <stdlib.h>
// Infinities are values here: masks add them.
#pragma GCC optimize("O3", "no-finite-math-only")

// PARAMS {
constexpr int VECTOR_BYTES = 64;
constexpr int STREAM = 1;
constexpr int PREFETCH_BYTES = 2048;
constexpr int NEXT_ROW = 1;
constexpr int UNROLL = 2;
constexpr int KEEP = 1;
constexpr int SERIAL_BELOW = 32768;
// } PARAMS

// LAYOUT {
constexpr bool SPLIT = true;
// } LAYOUT

// A `Pair` is two vectors of floats. In the split layout (16-bit elements) `a` holds the even and
// `b` the odd elements of a run of STEP: both come out of one load by a shift and a mask, where
// widening in order needs the shuffle unit twice. Otherwise `a` is the first half.
constexpr int NATIVE_BYTES =
#if defined(__AVX512F__)
    64;
#elif defined(__AVX__)
    32;
#else
    16;
#endif
constexpr int WIDTH = VECTOR_BYTES < NATIVE_BYTES ? VECTOR_BYTES : NATIVE_BYTES;
constexpr int LANES = WIDTH / 4;
constexpr int STEP = 2 * LANES;
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define HAS_MASKS 1
#endif

typedef float F32 __attribute__((vector_size(WIDTH)));
typedef int32_t I32 __attribute__((vector_size(WIDTH)));
typedef uint32_t U32 __attribute__((vector_size(WIDTH)));
typedef uint16_t U16 __attribute__((vector_size(WIDTH)));
typedef uint16_t HalfU16 __attribute__((vector_size(WIDTH / 2)));
typedef uint8_t HalfU8 __attribute__((vector_size(WIDTH / 2)));
typedef uint8_t QuarterU8 __attribute__((vector_size(WIDTH / 4)));

#define INLINE static inline __attribute__((always_inline))

struct Pair {
  F32 a, b;
};
template <typename T>
struct Run {
  alignas(64) T at[STEP];
};

INLINE F32 splat(float x) { return x - F32{}; }
INLINE Pair pair(float x) { return {splat(x), splat(x)}; }
INLINE Pair pair(Pair x) { return x; }
INLINE Pair operator+(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; }
INLINE Pair operator-(Pair x, Pair y) { return {x.a - y.a, x.b - y.b}; }
INLINE Pair operator*(Pair x, Pair y) { return {x.a * y.a, x.b * y.b}; }
INLINE Pair operator/(Pair x, Pair y) { return {x.a / y.a, x.b / y.b}; }
INLINE Pair operator+(Pair x, float y) { return {x.a + y, x.b + y}; }
INLINE Pair operator-(Pair x, float y) { return {x.a - y, x.b - y}; }
INLINE Pair operator*(Pair x, float y) { return {x.a * y, x.b * y}; }
INLINE Pair operator/(Pair x, float y) { return x * (1.0f / y); }
INLINE Pair operator+(float x, Pair y) { return y + x; }
INLINE Pair operator-(float x, Pair y) { return {x - y.a, x - y.b}; }
INLINE Pair operator*(float x, Pair y) { return y * x; }
INLINE Pair operator/(float x, Pair y) { return {x / y.a, x / y.b}; }
INLINE Pair operator-(Pair x) { return {-x.a, -x.b}; }

INLINE F32 choose(I32 condition, F32 x, F32 y) {
  return (F32)((condition & (I32)x) | (~condition & (I32)y));
}
INLINE F32 largest(F32 x, F32 y) {
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    asm("vmaxps %2, %1, %0" : "=v"(x) : "v"(x), "v"(y));
    return x;
  }
#endif
  return x > y ? x : y;
}
INLINE F32 smallest(F32 x, F32 y) {
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    asm("vminps %2, %1, %0" : "=v"(x) : "v"(x), "v"(y));
    return x;
  }
#endif
  return x < y ? x : y;
}
INLINE float largest(float x, float y) { return x > y ? x : y; }
INLINE float smallest(float x, float y) { return x < y ? x : y; }
INLINE Pair largest(Pair x, Pair y) { return {largest(x.a, y.a), largest(x.b, y.b)}; }
INLINE Pair smallest(Pair x, Pair y) { return {smallest(x.a, y.a), smallest(x.b, y.b)}; }
INLINE Pair largest(Pair x, float y) { return largest(x, pair(y)); }
INLINE Pair smallest(Pair x, float y) { return smallest(x, pair(y)); }
INLINE Pair largest(float x, Pair y) { return largest(pair(x), y); }
INLINE Pair smallest(float x, Pair y) { return smallest(pair(x), y); }
INLINE F32 absolute(F32 x) { return (F32)((I32)x & 0x7fffffff); }
INLINE Pair absolute(Pair x) { return {absolute(x.a), absolute(x.b)}; }
INLINE float absolute(float x) { return __builtin_fabsf(x); }
INLINE F32 square_root(F32 x) {
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    asm("vsqrtps %1, %0" : "=v"(x) : "v"(x));
    return x;
  }
#endif
  for (int i = 0; i < LANES; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
INLINE Pair square_root(Pair x) { return {square_root(x.a), square_root(x.b)}; }
INLINE float square_root(float x) { return __builtin_sqrtf(x); }

// The elements' places in a run, in the order of a Pair's lanes.
INLINE I32 places(int start, int step) {
  I32 place;
  for (int i = 0; i < LANES; i++) place[i] = start + i * step;
  return place;
}
INLINE Pair keep(Pair x, int count, float rest) {
  const I32 a = SPLIT ? places(0, 2) : places(0, 1);
  const I32 b = SPLIT ? places(1, 2) : places(LANES, 1);
  return {choose(a < count, x.a, splat(rest)), choose(b < count, x.b, splat(rest))};
}
INLINE float total(F32 x) {
  float sum[LANES];
  __builtin_memcpy(sum, &x, sizeof x);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) sum[i] += sum[i + half];
  return sum[0];
}
INLINE float total(Pair x) { return total(x.a + x.b); }
INLINE float top(Pair x) {
  float best[LANES];
  const F32 both = largest(x.a, x.b);
  __builtin_memcpy(best, &both, sizeof both);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) best[i] = largest(best[i], best[i + half]);
  return best[0];
}
INLINE float bottom(Pair x) { return -top(-x); }

template <bool STREAMED, typename T>
INLINE void put(void *out, T x) {
#if defined(__AVX512F__)
  if constexpr (STREAMED && sizeof(T) >= 16) {
    asm volatile("vmovntdq %1, %0" : "=m"(*(T *)out) : "v"(x));
    return;
  }
#endif
  __builtin_memcpy(out, &x, sizeof x);
}
template <typename T>
INLINE T get(const void *in) {
  T x;
  __builtin_memcpy(&x, in, sizeof x);
  return x;
}
// The first `count` elements, zeros behind them; nothing behind them is touched.
template <typename T>
INLINE Run<T> get_some(const T *in, int count) {
  Run<T> run = {};
#if defined(HAS_MASKS)
  if constexpr (sizeof(T) * STEP == 64) {
    const uint64_t mask = (uint64_t(1) << count) - 1;
    U16 x;
    asm("vmovdqu16 %1, %0%{%2%}%{z%}" : "=v"(x) : "m"(*(const U16 *)in), "Yk"(mask));
    __builtin_memcpy(run.at, &x, sizeof x);
    return run;
  }
#endif
  for (int i = 0; i < count; i++) run.at[i] = in[i];
  return run;
}
template <typename T>
INLINE void put_some(T *out, const Run<T> &run, int count) {
#if defined(HAS_MASKS)
  if constexpr (sizeof(T) * STEP == 64) {
    const uint64_t mask = (uint64_t(1) << count) - 1;
    const U16 x = get<U16>(run.at);
    asm volatile("vmovdqu16 %1, %0%{%2%}" : "+m"(*(U16 *)out) : "v"(x), "Yk"(mask));
    return;
  }
#endif
  for (int i = 0; i < count; i++) out[i] = run.at[i];
}

INLINE Pair split_pair(F32 first, F32 second) {
  if constexpr (!SPLIT) return {first, second};
  I32 even = places(0, 2), odd = places(1, 2);
  return {__builtin_shuffle(first, second, even), __builtin_shuffle(first, second, odd)};
}
INLINE Pair join_pair(Pair x) {
  if constexpr (!SPLIT) return x;
  I32 low, high;
  for (int i = 0; i < LANES; i++) {
    low[i] = i / 2 + i % 2 * LANES;
    high[i] = low[i] + LANES / 2;
  }
  return {__builtin_shuffle(x.a, x.b, low), __builtin_shuffle(x.a, x.b, high)};
}
INLINE Pair load_f32(const float *in) {
  return split_pair(get<F32>(in), get<F32>(in + LANES));
}
template <bool STREAMED>
INLINE void store_f32(float *out, Pair x) {
  x = join_pair(x);
  put<STREAMED>(out, x.a);
  put<STREAMED>(out + LANES, x.b);
}
// A row buffer keeps a Pair's lanes as they are.
INLINE Pair recall(const float *in) { return {get<F32>(in), get<F32>(in + LANES)}; }
INLINE void retain(float *out, Pair x) {
  __builtin_memcpy(out, &x.a, sizeof x.a);
  __builtin_memcpy(out + LANES, &x.b, sizeof x.b);
}
INLINE float one_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  return get<float>(&wide);
}
INLINE uint16_t to_bf16(float x) {
  const uint32_t bits = get<uint32_t>(&x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
INLINE F32 widen_bf16(const uint16_t *in) {
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    // GCC 12 makes four shuffles of __builtin_convertvector here.
    U32 x;
    asm("vpmovzxwd %1, %0" : "=v"(x) : "m"(*(const HalfU16 *)in));
    return (F32)(x << 16);
  }
#endif
  return (F32)(__builtin_convertvector(get<HalfU16>(in), U32) << 16);
}
INLINE Pair load_bf16(const uint16_t *in) {
  if constexpr (!SPLIT) return {widen_bf16(in), widen_bf16(in + LANES)};
  const U32 x = get<U32>(in);
  return {(F32)(x << 16), (F32)(x & 0xffff0000u)};
}
// Round to nearest even, the result in the upper halves.
INLINE U32 round_bf16(F32 x) {
  const U32 bits = (U32)x;
  return bits + 0x7fff + (bits >> 16 & 1);
}
template <bool STREAMED>
INLINE void store_bf16(uint16_t *out, Pair x) {
#if defined(__AVX512BF16__) && defined(HAS_MASKS)
  if constexpr (WIDTH == 64) {
    U16 bits;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(bits) : "v"(x.a), "v"(x.b));
    if constexpr (SPLIT) {
      U16 order;
      for (int i = 0; i < STEP; i++) order[i] = i / 2 + i % 2 * LANES;
      asm("vpermw %1, %2, %0" : "=v"(bits) : "v"(bits), "v"(order));
    }
    put<STREAMED>(out, bits);
    return;
  }
#endif
  if constexpr (SPLIT) {
    put<STREAMED>(out, (round_bf16(x.a) >> 16) | (round_bf16(x.b) & 0xffff0000u));
  } else {
    put<false>(out, __builtin_convertvector(round_bf16(x.a) >> 16, HalfU16));
    put<false>(out + LANES, __builtin_convertvector(round_bf16(x.b) >> 16, HalfU16));
  }
}

struct bf16 {
  uint16_t bits;
};
struct half {
  uint16_t bits;
};
struct fp8 {
  uint8_t bits;
};
template <bool V>
struct Flag {
  static constexpr bool value = V;
};
struct Mask {
  I32 a, b;
};

// ---- scalars and runs of columns alike ----
template <typename T>
INLINE T same(T x) { return x; }
template <typename T>
INLINE T negate(T x) { return -x; }
template <typename T>
INLINE T square(T x) { return x * x; }
template <typename T>
INLINE T relu(T x) { return largest(x, 0.0f); }
template <typename T>
INLINE T inverse(T x) { return 1.0f / x; }
template <typename T>
INLINE T inverse_root(T x) { return 1.0f / square_root(x); }
INLINE int64_t negate(int64_t x) { return -x; }
INLINE float where(bool condition, float x, float y) { return condition ? x : y; }
INLINE int64_t where(bool condition, int64_t x, int64_t y) { return condition ? x : y; }
INLINE Pair where(Mask condition, Pair x, Pair y) {
  return {choose(condition.a, x.a, y.a), choose(condition.b, x.b, y.b)};
}
INLINE Pair where(Mask condition, float x, Pair y) { return where(condition, pair(x), y); }
INLINE Pair where(Mask condition, Pair x, float y) { return where(condition, x, pair(y)); }
INLINE Pair where(Mask condition, float x, float y) { return where(condition, pair(x), pair(y)); }
INLINE Pair where(bool condition, Pair x, Pair y) { return condition ? x : y; }
INLINE Pair where(bool condition, Pair x, float y) { return condition ? x : pair(y); }
INLINE Pair where(bool condition, float x, Pair y) { return condition ? pair(x) : y; }
INLINE Pair number(Mask x) { return where(x, 1.0f, 0.0f); }
INLINE float number(bool x) { return x ? 1.0f : 0.0f; }
#define COMPARISON(SIGN) \
  INLINE Mask operator SIGN(Pair x, Pair y) { return {x.a SIGN y.a, x.b SIGN y.b}; } \
  INLINE Mask operator SIGN(Pair x, float y) { return x SIGN pair(y); } \
  INLINE Mask operator SIGN(float x, Pair y) { return pair(x) SIGN y; }
COMPARISON(<)
COMPARISON(>)
COMPARISON(<=)
COMPARISON(>=)
COMPARISON(==)
COMPARISON(!=)

// exp: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]; relative error below 2e-7.
template <typename F>
INLINE F exponential_of(F r) {
  F y = r * 8.31281e-3f + 4.189024e-2f;
  y = y * r + 1.6667112e-1f;
  y = y * r + 4.9999231e-1f;
  y = y * r + 1.0f;
  return y * r + 1.0f;
}
INLINE F32 exponential(F32 x) {
  x = largest(x, splat(-87.3f));
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    F32 n, y = x * 1.44269504088896f;
    asm("vrndscaleps $8, %1, %0" : "=v"(n) : "v"(y));
    y = exponential_of(x - n * 0.693147182464599609375f);
    asm("vscalefps %1, %0, %0" : "+v"(y) : "v"(n));
    return y;
  }
#endif
  x = smallest(x, splat(88.3f));
  const F32 y = x * 1.44269504088896f;
  const F32 half = (F32)(((I32)y & int32_t(0x80000000)) | 0x3f000000);
  const I32 n = __builtin_convertvector(y + half, I32);
  const F32 r = x - __builtin_convertvector(n, F32) * 0.693147182464599609375f;
  return exponential_of(r) * (F32)((n + 127) << 23);
}
INLINE Pair exponential(Pair x) { return {exponential(x.a), exponential(x.b)}; }
INLINE float exponential(float x) { return __builtin_expf(x); }
// 1 / x for 1 <= x < 1e38: an estimate and one step of Newton's are faster than a division.
INLINE F32 quick_inverse(F32 x) {
#if defined(__AVX512F__)
  if constexpr (WIDTH == 64) {
    F32 y;
    asm("vrcp14ps %1, %0" : "=v"(y) : "v"(x));
    return y * (2.0f - x * y);
  }
#endif
  return 1.0f / x;
}
INLINE Pair sigmoid(Pair x) {
  const Pair d = exponential(smallest(-x, 87.0f)) + 1.0f;
  return {quick_inverse(d.a), quick_inverse(d.b)};
}
INLINE float sigmoid(float x) { return 1.0f / (__builtin_expf(-x) + 1.0f); }
template <typename T>
INLINE T silu(T x) { return x * sigmoid(x); }
template <typename T>
INLINE T tanh_of(T x) {
  x = smallest(largest(x, -9.0f), 9.0f);
  const T y = x * x;
  // Rational approximation (numerator odd of degree 13, denominator even of degree 6), 4 ulp.
  T p = y * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = p * y + -8.60467152213735e-11f;
  p = p * y + 5.12229709037114e-08f;
  p = p * y + 1.48572235717979e-05f;
  p = p * y + 6.37261928875436e-04f;
  p = p * y + 4.89352455891786e-03f;
  T q = y * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = q * y + 2.26843463243900e-03f;
  q = q * y + 4.89352518554385e-03f;
  return x * p / q;
}
// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
INLINE Pair erf_of(Pair x) {
  const Pair y = absolute(x);
  const Pair t = 1.0f / (y * 0.3275911f + 1.0f);
  Pair p = t * 1.061405429f + -1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t + -0.284496736f;
  p = p * t + 0.254829592f;
  const Pair z = pair(1.0f) - p * t * exponential(-(y * y));
  return where(x < 0.0f, -z, z);
}
INLINE float erf_of(float x) { return __builtin_erff(x); }
INLINE float logarithm(float x) { return __builtin_logf(x); }
INLINE F32 logarithm(F32 x) {
  // x = 2^n m with m in [1/sqrt 2, sqrt 2): log m from the series of atanh((m - 1) / (m + 1)).
  const I32 bits = (I32)x;
  const I32 n = (bits - 0x3f3504f3) >> 23;
  const F32 m = (F32)(bits - (n << 23));
  const F32 s = (m - 1.0f) / (m + 1.0f), t = s * s;
  F32 y = t * 0.2222222f + 0.2857143f;
  y = y * t + 0.4f;
  y = y * t + 0.6666667f;
  y = y * t + 2.0f;
  return s * y + __builtin_convertvector(n, F32) * 0.693147180559945f;
}
INLINE Pair logarithm(Pair x) { return {logarithm(x.a), logarithm(x.b)}; }
template <typename T>
INLINE T log1p_of(T x) { return logarithm(x + 1.0f); }
template <typename T>
INLINE T expm1_of(T x) { return exponential(x) - 1.0f; }

// ---- memory ----
INLINE float value_of(float x) { return x; }
INLINE float value_of(bf16 x) { return one_bf16(x.bits); }
INLINE float value_of(half x) { return float(get<_Float16>(&x.bits)); }
INLINE int64_t value_of(int64_t x) { return x; }
INLINE int64_t value_of(int32_t x) { return x; }
INLINE int64_t inside(int64_t index, int64_t extent) {
  return index < 0 ? 0 : index < extent ? index : extent - 1;
}
INLINE void set(float &to, float x) { to = x; }
INLINE void set(bf16 &to, float x) { to.bits = to_bf16(x); }
INLINE void set(half &to, float x) {
  const _Float16 y = _Float16(x);
  __builtin_memcpy(&to, &y, sizeof to);
}
INLINE void set(int64_t &to, int64_t x) { to = x; }
INLINE void set(int32_t &to, int64_t x) { to = int32_t(x); }

template <bool FIRST, typename T>
INLINE void ahead(const T *in) {
  if constexpr (FIRST && PREFETCH_BYTES > 0)
    for (int line = 0; line < int(sizeof(T)) * STEP; line += 64)
      __builtin_prefetch((const char *)in + PREFETCH_BYTES + line);
}
// While the last pass computes, the memory is idle: it can bring the next row's elements.
template <typename T>
INLINE void bring(const T *in) {
  if constexpr (NEXT_ROW)
    for (int line = 0; line < int(sizeof(T)) * STEP; line += 64)
      __builtin_prefetch((const char *)in + line);
}
template <bool TAIL, bool FIRST>
INLINE Pair load(const bf16 *in, int count) {
  const uint16_t *from = (const uint16_t *)in;
  if constexpr (TAIL) return load_bf16(get_some(from, count).at);
  ahead<FIRST>(in);
  return load_bf16(from);
}
template <bool TAIL, bool FIRST>
INLINE Pair load(const float *in, int count) {
  if constexpr (TAIL) return load_f32(get_some(in, count).at);
  ahead<FIRST>(in);
  return load_f32(in);
}
template <bool TAIL, bool FIRST>
INLINE Pair load(const half *in, int count) {
  float wide[STEP] = {};
  if constexpr (!TAIL) ahead<FIRST>(in);
  for (int i = 0; i < (TAIL ? count : STEP); i++) wide[i] = value_of(in[i]);
  return load_f32(wide);
}
template <bool TAIL, bool STREAMED>
INLINE void store(bf16 *out, Pair x, int count) {
  if constexpr (TAIL) {
    Run<uint16_t> run;
    store_bf16<false>(run.at, x);
    put_some((uint16_t *)out, run, count);
  } else {
    store_bf16<STREAMED>((uint16_t *)out, x);
  }
}
template <bool TAIL, bool STREAMED>
INLINE void store(float *out, Pair x, int count) {
  if constexpr (TAIL) {
    Run<float> run;
    store_f32<false>(run.at, x);
    put_some(out, run, count);
  } else {
    store_f32<STREAMED>(out, x);
  }
}
template <bool TAIL, bool STREAMED>
INLINE void store(half *out, Pair x, int count) {
  float wide[STEP];
  store_f32<false>(wide, x);
  for (int i = 0; i < (TAIL ? count : STEP); i++) set(out[i], wide[i]);
}
// Round to nearest even in fp8 e4m3fn; beyond 464 it is NaN, as torch's cast gives. Adding 2^20
// times the power of two below |x| (2^-6 for smaller ones) leaves the 3 bits that fp8 keeps, rounded,
// at the end of the sum: they count up from the exponent's code, into the next one if they carry.
INLINE I32 fp8_bits(F32 x) {
  const F32 size = smallest(absolute(x), splat(512.0f));
  const I32 exponent = (I32)largest(size, splat(0.015625f)) & 0x7f800000;
  const I32 magic = exponent + (20 << 23);
  const I32 steps = (I32)(size + (F32)magic) - magic;
  const I32 code = steps + (exponent >> 20) - (121 << 3);
  const I32 over = code > 0x7f;
  return ((over & 0x7f) | (~over & code)) | ((I32)x >> 24 & 0x80);
}
template <bool TAIL, bool STREAMED>
INLINE void store(fp8 *out, Pair x, int count) {
  uint8_t run[STEP];
  const I32 a = fp8_bits(x.a), b = fp8_bits(x.b);
  if constexpr (SPLIT) {
    const HalfU16 both = __builtin_convertvector((U32)(a | b << 8), HalfU16);
    __builtin_memcpy(run, &both, sizeof both);
  } else {
    const QuarterU8 first = __builtin_convertvector((U32)a, QuarterU8);
    const QuarterU8 second = __builtin_convertvector((U32)b, QuarterU8);
    __builtin_memcpy(run, &first, sizeof first);
    __builtin_memcpy(run + LANES, &second, sizeof second);
  }
  __builtin_memcpy(out, run, TAIL ? count : STEP);
}
INLINE int64_t earlier(int64_t x, int64_t y) { return x < y ? x : y; }
INLINE int64_t later(int64_t x, int64_t y) { return x > y ? x : y; }
template <typename Step>
INLINE void over_columns(int64_t begin, int64_t end, Step step) {
  int64_t c = begin;
#pragma GCC unroll UNROLL
  for (; c + STEP <= end; c += STEP) step(Flag<false>{}, c, STEP);
  if (c < end) step(Flag<true>{}, c, int(end - c));
}
// Room for one value per column and a whole last run, kept by each thread between calls.
INLINE float *room(float *&at, int64_t &size, int64_t columns) {
  if (size < columns + STEP) {
    free(at);
    size = (columns + STEP + 4095) / 4096 * 4096;
    at = (float *)aligned_alloc(64, size * sizeof(float));
  }
  return at;
}
INLINE bool streams(const void *out, int64_t row_bytes) {
  return STREAM && (((uintptr_t)out | row_bytes) & 63) == 0;
}
INLINE void fence() {
#if defined(__x86_64__)
  asm volatile("sfence" ::: "memory");
#endif
}

// ROW_PROGRAM {
struct Arguments {
  const bf16 *hidden_states;
  const bf16 *weight;
  bf16 *output;
  int64_t rows;
  int64_t hidden;
};
template <bool STREAMED>
static void run_row(const Arguments &a, int64_t row, int64_t from, int64_t to) {
  const int64_t columns = a.hidden;
  (void)from, (void)to;
  Pair sum4 = pair(0.0f);
  {
    const auto step = [&](auto tail, int64_t c, int count) {
      constexpr bool TAIL = decltype(tail)::value;
      (void)TAIL, (void)count;
      const auto v0 = load<TAIL, true>(a.hidden_states + row * columns + c, count);
      const auto v2 = same(v0);
      const auto v3 = square(v2);
      sum4 = sum4 + (TAIL ? keep(pair(v3), count, 0.0f) : pair(v3));
    };
    over_columns(from, to, step);
  }
  const float s4 = total(sum4) / float(columns);
  const auto s5 = (s4 + 1e-06f);
  const auto s6 = inverse_root(s5);
  {
    const auto step = [&](auto tail, int64_t c, int count) {
      constexpr bool TAIL = decltype(tail)::value;
      (void)TAIL, (void)count;
      const auto v1 = load<TAIL, false>(a.weight + 0 + c, count);
      const auto v0 = load<TAIL, false>(a.hidden_states + row * columns + c, count);
      const auto v2 = same(v0);
      const auto v7 = (v2 * s6);
      const auto v8 = same(v7);
      const auto v9 = (v1 * v8);
      store<TAIL, STREAMED>(a.output + row * columns + c, pair(v9), count);
      bring(a.hidden_states + (row + 1) * columns + c);
    };
    over_columns(from, to, step);
  }
}
extern "C" int run(const bf16 *in_hidden_states, const bf16 *in_weight, bf16 *in_output, int64_t n_rows, int64_t n_hidden) {
  const Arguments a = {in_hidden_states, in_weight, in_output, n_rows, n_hidden};
  const int64_t columns = a.hidden, rows = a.rows;
  if (rows <= 0 || columns <= 0) return 1;
  const bool streamed = streams(a.output, columns / 1 * int64_t(sizeof *a.output));
#pragma omp parallel if (rows * columns * 2 >= SERIAL_BELOW)
  {
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < rows; row++)
      if (streamed)
        run_row<true>(a, row, 0, columns);
      else
        run_row<false>(a, row, 0, columns);
    fence();
  }
  return 0;
}
// } ROW_PROGRAM
