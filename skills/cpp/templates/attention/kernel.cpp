// out[q] = sum over the keys that q sees of softmax(scale q·k) v, bfloat16 in and out, float32 sums.
//
// The softmax is online: a block of keys at a time, with a running maximum and sum for every row.
// Many rows of queries share packed keys and values and run on AMX; a few rows (decoding) read the
// cache once, in the order of memory, with vectors. Query heads that share a key-value head are
// neighbours in memory: they are rows of one matrix.
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__) && defined(__linux__) && defined(__AVX512BF16__)
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_AMX_CODE 1
#else
#define HAS_AMX_CODE 0
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

enum Path { AUTOMATIC, AMX, VECTOR };

// PARAMS {
constexpr Path PATH = AUTOMATIC;     // AUTOMATIC: AMX where the processor has it and rows suffice
constexpr int KEY_BLOCK = 256;       // AMX: keys between two looks at the running maximum
constexpr int VECTOR_KEYS = 32;      // VECTOR: the same
constexpr int PREFETCH_BYTES = 8192; // how far ahead of their use keys and values are fetched
// } PARAMS

// PROBLEM {
constexpr int64_t D = 128; // of queries, keys and values
constexpr bool CAUSAL = true; // query s sees keys 0 to s
constexpr float SCALE = 0.08838834764831843f;
// } PROBLEM

typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
constexpr int64_t LANES = 16, PAIRS = D / 32;
constexpr float LOG2_E_SCALE = SCALE * 1.4426950408889634f, HIDDEN = -1e30f;
static_assert(D % 32 == 0 && KEY_BLOCK % 32 == 0 && VECTOR_KEYS % 32 == 0);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
template <class T> static inline T get(const void *from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
#define INLINE static inline __attribute__((always_inline))
INLINE Floats splat(float x) { return x - (Floats){}; }
INLINE Floats larger(Floats a, Floats b) {
#ifdef __AVX512F__
    asm("vmaxps %2, %1, %0" : "=v"(a) : "v"(a), "v"(b));
    return a;
#else
    return a > b ? a : b;
#endif
}
// Lane 0 of what `join` makes of all lanes, in four steps.
template <class Join> static inline float joined(Floats v, Join join) {
    v = join(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = join(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = join(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    v = join(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return v[0];
}
static inline float top_of(Floats v) { return joined(v, larger); }
static inline float sum_of(Floats v) {
    return joined(v, [](Floats a, Floats b) { return a + b; });
}
static inline Words rounded(Floats x) {
    const Words bits = (Words)x;
    return bits + 0x7fff + ((bits >> 16) & 1);
}
// The first vector's elements at even places, the second one's at odd places.
static inline Words bfloat16_pairs(Floats even, Floats odd) {
    return (rounded(even) >> 16) | (rounded(odd) & 0xffff0000u);
}

// 2^x for x <= 0, within 3e-6.
static inline Floats power_of_two(Floats x) {
#ifdef __AVX512F__
    Floats whole;
    asm("vrndscaleps $8, %1, %0" : "=v"(whole) : "v"(x));
    const Floats f = x - whole;
#else
    x = larger(x, splat(-126.0f));
    const Ints whole = __builtin_convertvector(x - 0.5f, Ints);
    const Floats f = x - __builtin_convertvector(whole, Floats);
#endif
    Floats p = f * 1.33335581e-3f + 9.61812911e-3f;
    p = p * f + 5.55041087e-2f;
    p = p * f + 2.40226507e-1f;
    p = p * f + 6.93147181e-1f;
    p = p * f + 1.0f;
#ifdef __AVX512F__
    asm("vscalefps %2, %1, %0" : "=v"(p) : "v"(p), "v"(whole));
    return p;
#else
    return p * (Floats)((whole + 127) << 23);
#endif
}

// Scratch memory that outlives a call: fresh pages would cost a fault each, every time.
static char *scratch(size_t bytes) {
    static char *memory;
    static size_t held;
    if (bytes > held) {
        if (memory) munmap(memory, held);
        size_t size = (bytes + (2 << 20) - 1) >> 21 << 21;
        void *got = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        held = got == MAP_FAILED ? 0 : size;
        memory = got == MAP_FAILED ? nullptr : (char *)got;
#ifdef MADV_HUGEPAGE
        if (memory) madvise(memory, size, MADV_HUGEPAGE);
#endif
    }
    return memory;
}

struct Sizes {
    int64_t kv_heads;  // over the whole batch
    int64_t group;     // query heads that share one
    int64_t queries, keys;

    inline int64_t rows() const { return group * queries; }
    inline int64_t limit(int64_t row) const { return CAUSAL ? least(keys, row % queries + 1) : keys; }
    // The keys that any of the rows sees.
    inline int64_t limit(int64_t first, int64_t count) const {
        int64_t top = 0;
        for (int64_t r = first; r < first + count; r++) top = most(top, limit(r));
        return top;
    }
};

// Hands the weights of a row of scores, relative to the running maximum, to `put`, 32 at a time;
// the factor by which earlier sums shrink. The count is a multiple of 32.
template <class Put>
static inline float soften(float *scores, int64_t count, int64_t visible, float &top, float &total, Put put) {
    for (int64_t k = most(visible, 0); k < count; k++) scores[k] = HIDDEN;
    Floats best_a = splat(top), best_b = best_a;
    for (int64_t k = 0; k < count; k += 32) {
        best_a = larger(best_a, get<Floats>(scores + k));
        best_b = larger(best_b, get<Floats>(scores + k + 16));
    }
    const float now = top_of(larger(best_a, best_b));
    const float shrink = top == now ? 1.0f : power_of_two(splat((top - now) * LOG2_E_SCALE))[0];
    Floats sum_a = {}, sum_b = {};
    for (int64_t k = 0; k < count; k += 32) {
        const Floats a = power_of_two((get<Floats>(scores + k) - now) * LOG2_E_SCALE);
        const Floats b = power_of_two((get<Floats>(scores + k + 16) - now) * LOG2_E_SCALE);
        sum_a += a;
        sum_b += b;
        put(k, a, b);
    }
    top = now;
    total = total * shrink + sum_of(sum_a + sum_b);
    return shrink;
}

// ---------------------------------------------------------------- vectors, any processor

// The sums of 16 vectors as the lanes of one.
static inline Floats sums_of(const Floats (&v)[16]) {
    Floats a[8], b[4], c[2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
               __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
               __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        c[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
               __builtin_shufflevector(b[2 * i], b[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    return __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(c[0], c[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

INLINE void multiply_add(Floats &sum, const Words &x, const Words &y) {
#ifdef __AVX512BF16__
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
#else
    sum += (Floats)(x << 16) * (Floats)(y << 16);
    sum += (Floats)(x & 0xffff0000u) * (Floats)(y & 0xffff0000u);
#endif
}

constexpr int64_t VECTOR_ROWS = 16;

// scores[4][key] of four rows and `count` keys, four at a time; beyond the keys it repeats the last.
static void vector_scores(const uint16_t *const (&rows)[4], const uint16_t *keys, int64_t count, float (*scores)[VECTOR_KEYS]) {
    for (int64_t k = 0; k < count; k += 4) {
        const uint16_t *key[4];
        for (int j = 0; j < 4; j++) key[j] = keys + least(k + j, count - 1) * D;
        Floats sums[16] = {};
#pragma GCC unroll 8
        for (int64_t p = 0; p < PAIRS; p++) {
            if (PREFETCH_BYTES)
                for (int j = 0; j < 4; j++) __builtin_prefetch((const char *)(keys + (k + j) * D + 32 * p) + PREFETCH_BYTES, 0, 2);
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++)
                    multiply_add(sums[4 * r + j], get<Words>(rows[r] + 32 * p), get<Words>(key[j] + 32 * p));
        }
        const Floats all = sums_of(sums);
        for (int r = 0; r < 4; r++) memcpy(&scores[r][k], (const float *)&all + 4 * r, 16);
    }
}

// out[4][pair of vectors] += weights × values; even and odd elements lie apart.
static void vector_values(const float (*weights)[VECTOR_KEYS], const uint16_t *values, int64_t count, Floats (*out)[2 * PAIRS]) {
    constexpr int64_t AT_ONCE = PAIRS % 2 == 0 ? 2 : 1;
    for (int64_t p = 0; p < PAIRS; p += AT_ONCE) {
        Floats sums[4][2 * AT_ONCE];
        for (int r = 0; r < 4; r++)
            for (int64_t q = 0; q < 2 * AT_ONCE; q++) sums[r][q] = out[r][2 * p + q];
        for (int64_t k = 0; k < count; k++) {
#pragma GCC unroll 2
            for (int64_t q = 0; q < AT_ONCE; q++) {
                const uint16_t *at = values + k * D + 32 * (p + q);
                if (PREFETCH_BYTES) __builtin_prefetch((const char *)at + PREFETCH_BYTES, 0, 2);
                const Words x = get<Words>(at);
                const Floats even = (Floats)(x << 16), odd = (Floats)(x & 0xffff0000u);
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    sums[r][2 * q] += even * weights[r][k];
                    sums[r][2 * q + 1] += odd * weights[r][k];
                }
            }
        }
        for (int r = 0; r < 4; r++)
            for (int64_t q = 0; q < 2 * AT_ONCE; q++) out[r][2 * p + q] = sums[r][q];
    }
}

// Up to 16 rows of one key-value head.
static void vector_block(
    const uint16_t *query, const uint16_t *key, const uint16_t *value, uint16_t *out, const Sizes &s,
    int64_t first, int64_t count
) {
    Floats sums[VECTOR_ROWS][2 * PAIRS];
    alignas(64) float scores[4][VECTOR_KEYS];
    float top[VECTOR_ROWS], total[VECTOR_ROWS];
    memset(sums, 0, sizeof sums);
    for (int64_t r = 0; r < VECTOR_ROWS; r++) top[r] = HIDDEN, total[r] = 0;
    const int64_t limit = s.limit(first, count);
    for (int64_t k0 = 0; k0 < limit; k0 += VECTOR_KEYS) {
        const int64_t keys = least(VECTOR_KEYS, limit - k0), padded = (keys + 31) / 32 * 32;
        for (int64_t r0 = 0; r0 < count; r0 += 4) {
            const uint16_t *rows[4];
            for (int64_t r = 0; r < 4; r++) rows[r] = query + (first + least(r0 + r, count - 1)) * D;
            vector_scores(rows, key + k0 * D, keys, scores);
            for (int64_t r = 0; r < 4; r++) {
                const int64_t visible = least(keys, s.limit(first + least(r0 + r, count - 1)) - k0);
                const float shrink = soften(scores[r], padded, visible, top[r0 + r], total[r0 + r], [&](int64_t k, Floats a, Floats b) {
                    memcpy(&scores[r][k], &a, 64);
                    memcpy(&scores[r][k + 16], &b, 64);
                });
                if (shrink != 1.0f)
                    for (int64_t q = 0; q < 2 * PAIRS; q++) sums[r0 + r][q] *= shrink;
            }
            vector_values(scores, value + k0 * D, keys, sums + r0);
        }
    }
    for (int64_t r = 0; r < count; r++)
        for (int64_t p = 0; p < PAIRS; p++) {
            const float share = 1.0f / total[r];
            const Words pair = bfloat16_pairs(sums[r][2 * p] * share, sums[r][2 * p + 1] * share);
            memcpy(out + (first + r) * D + 32 * p, &pair, 64);
        }
}

// ---------------------------------------------------------------- AMX
#if HAS_AMX_CODE

template <int T> static inline void tile_zero() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
template <int T> static inline void tile_load(const void *from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T> static inline void tile_store(void *to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}
template <int C, int A, int B> static inline void tile_multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}
static inline void tiles_begin() {
    alignas(64) uint8_t config[64] = {1};
    for (int t = 0; t < 8; t++) {
        config[16 + 2 * t] = 64;
        config[48 + t] = 16;
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
}
static inline void tiles_end() { asm volatile("tilerelease" :::); }

// CPUID says that tiles and their bfloat16 product exist, Linux grants their state once a process.
static bool amx_granted() {
    static int known = -1;
    if (known < 0) {
        uint32_t a = 7, b, c = 0, d;
        asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        bool there = (d >> 22 & 1) && (d >> 24 & 1);
        constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
        known = there && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    }
    return known;
}

static inline void transpose(Words (&v)[16]) {
    Words t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            v[i + 2 * h] = __builtin_shufflevector(t[i + h], t[i + 2 + h], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            v[i + 2 * h + 1] = __builtin_shufflevector(t[i + h], t[i + 2 + h], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    // v[4g + q] holds column 4L + q of rows 4g…4g+3 in its 128-bit lane L.
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        Words low0 = __builtin_shufflevector(v[q], v[4 + q], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        Words low1 = __builtin_shufflevector(v[8 + q], v[12 + q], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        Words high0 = __builtin_shufflevector(v[q], v[4 + q], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        Words high1 = __builtin_shufflevector(v[8 + q], v[12 + q], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
        t[q] = __builtin_shufflevector(low0, low1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[4 + q] = __builtin_shufflevector(low0, low1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        t[8 + q] = __builtin_shufflevector(high0, high1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        t[12 + q] = __builtin_shufflevector(high0, high1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) v[i] = t[i];
}

constexpr int64_t TILE = 512, BLOCK_ROWS = 32;

struct Panels {
    uint16_t *keys;    // [key / 16][d / 32] tiles of pairs along d
    uint16_t *values;  // [key / 32][d / 16] tiles of pairs along the keys, even d before odd d
    int64_t packed;    // keys so far

    // Up to `limit` keys of this head, zeros beyond its last one.
    void pack(const uint16_t *key, const uint16_t *value, int64_t limit, int64_t count) {
        for (; packed < limit; packed += 32) {
            if (PREFETCH_BYTES)
                for (int64_t line = 0; line < 64 * D; line += 64) {
                    __builtin_prefetch((const char *)(key + packed * D) + line + PREFETCH_BYTES, 0, 2);
                    __builtin_prefetch((const char *)(value + packed * D) + line + PREFETCH_BYTES, 0, 2);
                }
            for (int64_t h = 0; h < 2; h++)
                for (int64_t p = 0; p < PAIRS; p++) {
                    Words v[16];
                    const int64_t k = packed + 16 * h;
#pragma GCC unroll 16
                    for (int r = 0; r < 16; r++) v[r] = k + r < count ? get<Words>(key + (k + r) * D + 32 * p) : (Words){};
                    transpose(v);
                    memcpy(keys + (k / 16 * PAIRS + p) * TILE, v, sizeof v);
                }
            for (int64_t r = 0; r < 32; r += 2)
                for (int64_t p = 0; p < PAIRS; p++) {
                    const int64_t k = packed + r;
                    const Words a = k < count ? get<Words>(value + k * D + 32 * p) : (Words){};
                    const Words b = k + 1 < count ? get<Words>(value + (k + 1) * D + 32 * p) : (Words){};
                    const Words even = (a & 0xffffu) | (b << 16), odd = (a >> 16) | (b & 0xffff0000u);
                    uint16_t *to = values + (packed / 32 * 2 * PAIRS + 2 * p) * TILE + r * 16;
                    memcpy(to, &even, 64);
                    memcpy(to + TILE, &odd, 64);
                }
        }
    }
};

// Tiles 0 to 3 += two tiles of rows × two packed tiles, `steps` times.
static inline void multiply_2x2(
    const uint16_t *rows, int64_t row_bytes, int64_t row_step, const uint16_t *packed, int64_t apart,
    int64_t packed_step, int64_t steps
) {
    for (int64_t t = 0; t < steps; t++, rows += row_step, packed += packed_step) {
        tile_load<4>(rows, row_bytes);
        tile_load<6>(packed, 64);
        tile_multiply_add<0, 4, 6>();
        tile_load<5>(rows + 8 * row_bytes, row_bytes);
        tile_multiply_add<2, 5, 6>();
        tile_load<7>(packed + apart, 64);
        tile_multiply_add<1, 4, 7>();
        tile_multiply_add<3, 5, 7>();
    }
}
static inline void tiles_clear() { tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>(); }
static inline void tiles_read(const float *from, int64_t stride) {
    tile_load<0>(from, 4 * stride), tile_load<1>(from + 16, 4 * stride);
    tile_load<2>(from + 16 * stride, 4 * stride), tile_load<3>(from + 16 * stride + 16, 4 * stride);
}
static inline void tiles_write(float *to, int64_t stride) {
    tile_store<0>(to, 4 * stride), tile_store<1>(to + 16, 4 * stride);
    tile_store<2>(to + 16 * stride, 4 * stride), tile_store<3>(to + 16 * stride + 16, 4 * stride);
}

// 32 rows of one key-value head whose keys and values are packed as far as they are seen.
static void amx_block(const uint16_t *query, const Panels &panels, uint16_t *out, const Sizes &s, int64_t first) {
    alignas(64) float sums[BLOCK_ROWS][D], scores[BLOCK_ROWS][KEY_BLOCK];
    alignas(64) uint16_t weights[BLOCK_ROWS][KEY_BLOCK], padded[BLOCK_ROWS][D];
    float top[BLOCK_ROWS], total[BLOCK_ROWS];
    const int64_t count = least(BLOCK_ROWS, s.rows() - first), limit = s.limit(first, count);
    const uint16_t *rows = query + first * D;
    if (count < BLOCK_ROWS) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, rows, count * D * 2);
        rows = padded[0];
    }
    for (int64_t r = 0; r < BLOCK_ROWS; r++) top[r] = HIDDEN, total[r] = 0;
    for (int64_t k0 = 0; k0 < limit; k0 += KEY_BLOCK) {
        const int64_t keys = (least(KEY_BLOCK, limit - k0) + 31) / 32 * 32;
        for (int64_t k = 0; k < keys; k += 32) {
            tiles_clear();
            multiply_2x2(rows, 2 * D, 32, panels.keys + (k0 + k) / 16 * PAIRS * TILE, PAIRS * TILE, TILE, PAIRS);
            tiles_write(&scores[0][k], KEY_BLOCK);
        }
        for (int64_t r = 0; r < BLOCK_ROWS; r++) {
            const int64_t visible = s.limit(first + least(r, count - 1)) - k0;
            const float shrink = soften(scores[r], keys, least(visible, keys), top[r], total[r], [&](int64_t k, Floats a, Floats b) {
                Words both;
                asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a), "v"(b));
                memcpy(&weights[r][k], &both, 64);
            });
            if (k0 && shrink != 1.0f)
                for (int64_t d = 0; d < D; d++) sums[r][d] *= shrink;
        }
        for (int64_t d = 0; d < D; d += 32) {
            if (k0) tiles_read(&sums[0][d], D);
            else tiles_clear();
            multiply_2x2(weights[0], 2 * KEY_BLOCK, 32, panels.values + (k0 / 32 * 2 * PAIRS + d / 16) * TILE, TILE, 2 * PAIRS * TILE, keys / 32);
            tiles_write(&sums[0][d], D);
        }
    }
    for (int64_t r = 0; r < count; r++) {
        const float share = 1.0f / total[r];
        for (int64_t d = 0; d < D; d += 32) {
            const Words pair = bfloat16_pairs(get<Floats>(&sums[r][d]) * share, get<Floats>(&sums[r][d + 16]) * share);
            memcpy(out + (first + r) * D + d, &pair, 64);
        }
    }
}
#else
static bool amx_granted() { return false; }
#endif

// ---------------------------------------------------------------- the whole call

static int attention(const uint16_t *query, const uint16_t *key, const uint16_t *value, uint16_t *out, const Sizes &s) {
    if (s.kv_heads * s.rows() == 0) return 0;
    if (s.keys == 0) return 3;
    const bool amx = PATH != VECTOR && amx_granted() && (PATH == AMX || s.rows() >= 16);
    if (PATH == AMX && !amx) return 1;
    const int64_t block = amx ? 32 : VECTOR_ROWS, blocks = (s.rows() + block - 1) / block;
    const int64_t panel = amx ? (s.keys + 31) / 32 * 32 * D : 0;
    const int threads = (int)least(omp_get_max_threads(), s.kv_heads * blocks);
    uint16_t *memory = (uint16_t *)scratch(4 * panel * threads + 64);
    if (!memory) return 2;
    double work = 0;
    for (int64_t b = 0; b < blocks; b++) work += s.limit(b * block, least(block, s.rows() - b * block));
#pragma omp parallel num_threads(threads)
    {
        // Each thread takes a run of blocks of equal work.
        const int thread = omp_get_thread_num(), team = omp_get_num_threads();
        const double from = work * s.kv_heads * thread / team, to = work * s.kv_heads * (thread + 1) / team;
#if HAS_AMX_CODE
        Panels panels{memory + 2 * panel * thread, memory + (2 * thread + 1) * panel, 0};
        if (amx) tiles_begin();
#endif
        for (int64_t head = 0; head < s.kv_heads; head++) {
            double at = work * head;
            if (at + work <= from || at >= to) continue;
#if HAS_AMX_CODE
            panels.packed = 0;
#endif
            const uint16_t *keys = key + head * s.keys * D, *values = value + head * s.keys * D;
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t first = b * block, count = least(block, s.rows() - first), limit = s.limit(first, count);
                const double middle = at + 0.5 * limit;
                at += limit;
                if (middle < from || middle >= to) continue;
                const int64_t offset = head * s.rows() * D;
#if HAS_AMX_CODE
                if (amx) {
                    panels.pack(keys, values, limit, s.keys);
                    amx_block(query + offset, panels, out + offset, s, first);
                    continue;
                }
#endif
                vector_block(query + offset, keys, values, out + offset, s, first, count);
            }
        }
#if HAS_AMX_CODE
        if (amx) tiles_end();
#endif
    }
    return 0;
}

// ENTRY {
extern "C" int run(const uint16_t *in_query, const uint16_t *in_key, const uint16_t *in_value, uint16_t *out_output, int64_t axis_batch, int64_t axis_heads, int64_t axis_sequence, int64_t axis_head_dim) {
    return attention(in_query, in_key, in_value, out_output, Sizes{axis_batch * axis_heads, 1, axis_sequence, axis_sequence});
}
// } ENTRY
