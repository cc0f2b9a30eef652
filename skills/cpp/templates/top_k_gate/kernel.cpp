// The largest K logits of every row, their places, and their softmax weights. A bfloat16 logit and
// its place make one 32-bit key, of which no two are equal: the next largest is the largest below
// the last one found.
#include <stdint.h>
// A row's logits may be infinite where a mask was added.
#pragma GCC optimize("O3", "no-finite-math-only")

// PARAMS {
constexpr int VECTOR_BYTES = 64;
constexpr int CHAINS = 1;
constexpr int PREFETCH_BYTES = 1024;
constexpr int SERIAL_BELOW = 16384;
// } PARAMS

// PROBLEM {
enum Weights { LOGITS, OF_ALL, OF_CHOSEN };
constexpr int K = 8;
constexpr Weights WEIGHTS = OF_CHOSEN;
// } PROBLEM

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
constexpr int MAX_COLUMNS = 4096;
constexpr int32_t LOWEST = INT32_MIN;

typedef float F32 __attribute__((vector_size(WIDTH)));
typedef int32_t I32 __attribute__((vector_size(WIDTH)));
typedef uint32_t U32 __attribute__((vector_size(WIDTH)));

struct bf16 {
  uint16_t bits;
};

static inline I32 places(int start, int step) {
  I32 place;
  for (int i = 0; i < LANES; i++) place[i] = start + i * step;
  return place;
}
// A larger logit gives a larger upper half; of equal ones the first place gives the larger lower.
static inline I32 keys_of(I32 upper, I32 place) {
  return (upper ^ ((upper >> 31) & 0x7fff0000)) | (0xffff - place);
}
static inline float logit_of(int32_t key) {
  const int32_t upper = key & int32_t(0xffff0000);
  const int32_t bits = upper ^ ((upper >> 31) & 0x7fff0000);
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
static inline int32_t top(I32 x) {
  int32_t best[LANES];
  __builtin_memcpy(best, &x, sizeof x);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) best[i] = best[i] > best[i + half] ? best[i] : best[i + half];
  return best[0];
}

static void read_row(const bf16 *in, int columns, int32_t *keys) {
  const I32 even = places(0, 2), odd = places(1, 2);
  int c = 0;
  for (; c + STEP <= columns; c += STEP) {
    if (PREFETCH_BYTES)
      __builtin_prefetch((const char *)(in + c) + PREFETCH_BYTES);
    U32 x;
    __builtin_memcpy(&x, in + c, sizeof x);
    const I32 first = keys_of((I32)(x << 16), even + c);
    const I32 second = keys_of((I32)(x & 0xffff0000u), odd + c);
    __builtin_memcpy(keys + c, &first, sizeof first);
    __builtin_memcpy(keys + c + LANES, &second, sizeof second);
  }
  const int end = c + STEP;
  for (; c < columns; c++) {
    const int32_t upper = int32_t(uint32_t(in[c].bits) << 16);
    keys[c] = (upper ^ ((upper >> 31) & 0x7fff0000)) | (0xffff - c);
  }
  for (; c < end; c++) keys[c] = LOWEST;
}

// The largest key below `limit`, or any key if there is no limit.
static inline int32_t largest_below(const int32_t *keys, int padded, int32_t limit) {
  I32 best[CHAINS];
  for (int i = 0; i < CHAINS; i++) best[i] = I32{} + LOWEST;
  const I32 lowest = I32{} + LOWEST;
  for (int c = 0; c < padded; c += LANES * CHAINS)
#pragma GCC unroll 2
    for (int i = 0; i < CHAINS; i++) {
      I32 x;
      __builtin_memcpy(&x, keys + c + i * LANES, sizeof x);
      x = x < limit ? x : lowest;
      best[i] = x > best[i] ? x : best[i];
    }
  for (int i = 1; i < CHAINS; i++) best[0] = best[i] > best[0] ? best[i] : best[0];
  return top(best[0]);
}

static float sum_of_exponentials(const int32_t *keys, int padded, float maximum) {
  F32 sum = {};
  for (int c = 0; c < padded; c += LANES) {
    I32 key;
    __builtin_memcpy(&key, keys + c, sizeof key);
    const I32 upper = key & int32_t(0xffff0000);
    F32 x = (F32)(upper ^ ((upper >> 31) & 0x7fff0000)) - maximum;
    const I32 counts = (key != LOWEST) & (x > -87.0f);
    x = (F32)((I32)x & counts);
    const I32 n = __builtin_convertvector(x * 1.44269504088896f - 0.5f, I32);
    const F32 r = x - __builtin_convertvector(n, F32) * 0.693147182464599609375f;
    F32 y = r * 8.31281e-3f + 4.189024e-2f;
    y = y * r + 1.6667112e-1f;
    y = y * r + 4.9999231e-1f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    y = y * (F32)((n + 127) << 23);
    sum += (F32)((I32)y & counts);
  }
  float total = 0;
  for (int i = 0; i < LANES; i++) total += sum[i];
  return total;
}

static inline void set(float &to, float x) { to = x; }
static inline void set(bf16 &to, float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  to.bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <typename W, typename I>
static void select_row(const bf16 *in, int columns, W *weights, I *indices) {
  alignas(64) int32_t keys[MAX_COLUMNS + STEP];
  read_row(in, columns, keys);
  const int padded = (columns + STEP - 1) / STEP * STEP;
  int32_t found[K], last = INT32_MAX;
  for (int k = 0; k < K; k++) last = found[k] = largest_below(keys, padded, last);
  float value[K], sum = 0;
  const float maximum = logit_of(found[0]);
  for (int k = 0; k < K; k++) {
    value[k] = logit_of(found[k]);
    if (WEIGHTS != LOGITS) value[k] = __builtin_expf(value[k] - maximum);
    sum += value[k];
  }
  if (WEIGHTS == OF_ALL) sum = sum_of_exponentials(keys, padded, maximum);
  const float scale = WEIGHTS == LOGITS ? 1.0f : 1.0f / sum;
  for (int k = 0; k < K; k++) {
    if (weights) set(weights[k], value[k] * scale);
    if (indices) indices[k] = I(0xffff - (found[k] & 0xffff));
  }
}

template <typename W, typename I>
static int select_rows(const bf16 *in, W *weights, I *indices, int64_t rows, int64_t columns) {
  if (rows <= 0 || columns < K) return 1;
  if (columns > MAX_COLUMNS) return 2;
#pragma omp parallel for schedule(static) if (rows * columns >= SERIAL_BELOW)
  for (int64_t row = 0; row < rows; row++)
    select_row(in + row * columns, int(columns), weights ? weights + row * K : nullptr,
               indices ? indices + row * K : nullptr);
  return 0;
}

// ENTRY {
extern "C" int run(const bf16 *logits, float *weights, int32_t *indices, int64_t tokens, int64_t experts, int64_t top_k) {
  (void)top_k;
  return select_rows(logits, weights, indices, tokens, experts);
}
// } ENTRY
