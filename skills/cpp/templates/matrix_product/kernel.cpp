// out[b][i][j] = epilogue(sum over k of lhs[b][i][k] * rhs[b][j][k]), accumulated in float32.
//
// One operand is streamed from memory as it lies (its rows are AMX's A tiles), the other, smaller
// one is packed once a call into pairs along k (AMX's B tiles) and stays in the L2 cache. A dot
// product kernel in vector extensions takes few rows, other element types and other processors.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <math.h>
#include <omp.h>
#if defined(__x86_64__) && defined(__linux__) && defined(__AVX512F__)
#include <sys/syscall.h>
#include <unistd.h>
#define HAS_AMX_CODE 1
#else
#define HAS_AMX_CODE 0
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

enum Path { AUTOMATIC, AMX, DOT };
enum Side { LHS, RHS };

// PARAMS {
constexpr Path PATH = AUTOMATIC;     // AUTOMATIC: AMX where the processor has it and it pays
constexpr int DOT_MAX_ROWS = 2;      // AUTOMATIC takes dot products up to so many packed rows
constexpr Side STREAM = RHS;         // the operand that is read as it lies; the other is packed
constexpr int ROW_TILES = 2;         // AMX: tiles of the streamed operand held at once
constexpr int COLUMN_TILES = 2;      // AMX: tiles of the packed operand held at once
constexpr int DOT_ROWS = 1;          // DOT: streamed rows at once
constexpr int DOT_COLUMNS = 4;       // DOT: packed rows at once
constexpr int PREFETCH_BYTES = 4096; // how far ahead of its use the streamed operand is fetched
constexpr int PREFETCH_LEVEL = 2;    // 3: into L1, 2: into L2, 0: into L1 only, as non-temporal
// } PARAMS

#if defined(__AVX512F__)
#pragma GCC target("prefer-vector-width=512")
#endif

static inline float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline float widen(uint16_t bfloat16) { return as_float((uint32_t)bfloat16 << 16); }
static inline float widen(float value) { return value; }
static inline float widen(_Float16 value) { return (float)value; }
static inline void narrow(float value, uint16_t *to) {
    const uint32_t bits = as_bits(value), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    *to = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}
static inline void narrow(float value, float *to) { *to = value; }
static inline void narrow(float value, _Float16 *to) { *to = (_Float16)value; }

// 2^(x log2 e) by a polynomial on [-1/2, 1/2]; within 4e-7, and without a call in the loop.
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float whole = rintf(x * 1.44269504f), f = x * 1.44269504f - whole;
    float p = 1.54035304e-4f;
    p = p * f + 1.33335581e-3f;
    p = p * f + 9.61812911e-3f;
    p = p * f + 5.55041087e-2f;
    p = p * f + 2.40226507e-1f;
    p = p * f + 6.93147181e-1f;
    p = p * f + 1.0f;
    return p * as_float((uint32_t)((int32_t)whole + 127) << 23);
}
static inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }
static inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

// PROBLEM {
typedef uint16_t Element;
constexpr bool LHS_K_CONTIGUOUS = true;
constexpr bool RHS_K_CONTIGUOUS = true;

struct Epilogue {
    int64_t I, J;
    uint16_t *out_output;
    const uint16_t *in_bias;
    // Elements [j, j + n) of row i of matrix b.
    inline void operator()(int64_t b, int64_t i, int64_t j, int64_t n, const float *sums) const {
#pragma omp simd
        for (int64_t l = 0; l < n; l++) {
            const float v5 = sums[l] + widen(in_bias[(j + l)]);
            const float v7 = v5 * v5;
            const float v8 = v7 * v5;
            const float v9 = v8 * 0.044715f;
            const float v10 = v5 + v9;
            const float v11 = v10 * 0.7978845608028654f;
            const float v12 = v5 * 0.5f;
            const float v13 = hyperbolic_tangent(v11);
            const float v14 = v13 + 1.0f;
            const float v15 = v12 * v14;
            narrow(v15, out_output + (b * I + i) * J + j + l);
        }
    }
};
// } PROBLEM

typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef _Float16 Halves __attribute__((vector_size(32)));
constexpr int64_t LANES = 16;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

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

// ---------------------------------------------------------------- dot products, any processor

template <class T> struct Step;

template <> struct Step<uint16_t> {
    static constexpr int64_t COUNT = 32;
    static inline void multiply_add(Floats &sum, const uint16_t *a, const uint16_t *b) {
#ifdef __AVX512BF16__
        Words x, y;
        memcpy(&x, a, 64);
        memcpy(&y, b, 64);
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
#else
        Words x, y;
        memcpy(&x, a, 64);
        memcpy(&y, b, 64);
        sum += (Floats)(x << 16) * (Floats)(y << 16);
        sum += (Floats)(x & 0xffff0000u) * (Floats)(y & 0xffff0000u);
#endif
    }
};
template <> struct Step<float> {
    static constexpr int64_t COUNT = 16;
    static inline void multiply_add(Floats &sum, const float *a, const float *b) {
        Floats x, y;
        memcpy(&x, a, 64);
        memcpy(&y, b, 64);
        sum += x * y;
    }
};
template <> struct Step<_Float16> {
    static constexpr int64_t COUNT = 16;
    static inline void multiply_add(Floats &sum, const _Float16 *a, const _Float16 *b) {
        Halves x, y;
        memcpy(&x, a, 32);
        memcpy(&y, b, 32);
        sum += __builtin_convertvector(x, Floats) * __builtin_convertvector(y, Floats);
    }
};

static inline float sum_of(const Floats &v) {
    float total = 0;
    for (int l = 0; l < LANES; l++) total += v[l];
    return total;
}

// sums[r][c] of R streamed and C packed rows; `ahead` walks the memory that will be needed next.
template <int R, int C>
static inline void dot_block(
    const Element *rows, int64_t row_stride, const Element *columns, int64_t column_stride,
    int64_t K, const char *ahead, float *sums, int64_t sum_row, int64_t sum_column
) {
    constexpr int64_t COUNT = Step<Element>::COUNT;
    constexpr int U = R * C >= 4 ? 1 : 4 / (R * C);  // enough independent sums to hide latency
    Floats acc[U][R][C];
    for (int u = 0; u < U; u++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) acc[u][r][c] = (Floats){};
    int64_t k = 0;
    for (; k + U * COUNT <= K; k += U * COUNT) {
        if (PREFETCH_BYTES)
            for (int l = 0; l < (int)(U * R * COUNT * sizeof(Element) / 64); l++)
                __builtin_prefetch(ahead + 64 * l, 0, PREFETCH_LEVEL);
        ahead += U * R * COUNT * sizeof(Element);
#pragma GCC unroll 4
        for (int u = 0; u < U; u++)
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 8
                for (int c = 0; c < C; c++)
                    Step<Element>::multiply_add(acc[u][r][c], rows + r * row_stride + k + u * COUNT,
                                                columns + c * column_stride + k + u * COUNT);
    }
    for (; k + COUNT <= K; k += COUNT)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++)
                Step<Element>::multiply_add(acc[0][r][c], rows + r * row_stride + k,
                                            columns + c * column_stride + k);
    for (int u = 1; u < U; u++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) acc[0][r][c] += acc[u][r][c];
    if (k < K) {
        Element row[R][COUNT] = {}, column[C][COUNT] = {};
        for (int r = 0; r < R; r++) memcpy(row[r], rows + r * row_stride + k, (K - k) * sizeof(Element));
        for (int c = 0; c < C; c++)
            memcpy(column[c], columns + c * column_stride + k, (K - k) * sizeof(Element));
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) Step<Element>::multiply_add(acc[0][r][c], row[r], column[c]);
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) sums[r * sum_row + c * sum_column] = sum_of(acc[0][r][c]);
}

struct Operand {
    const Element *data;
    int64_t rows;
    inline const Element *row(int64_t r, int64_t K) const { return data + r * K; }
};

template <int R, int C>
static void dot_columns(
    const Element *rows, const Operand &columns, int64_t c0, int64_t c1, int64_t K,
    const char *ahead, float *sums, int64_t sum_row, int64_t sum_column
) {
    int64_t c = c0;
    for (; c + C <= c1; c += C, ahead = (const char *)rows)
        dot_block<R, C>(rows, K, columns.row(c, K), K, K, ahead, sums + (c - c0) * sum_column,
                        sum_row, sum_column);
    if constexpr (C > 1)
        if (c < c1)
            dot_columns<R, C / 2>(rows, columns, c, c1, K, ahead, sums + (c - c0) * sum_column,
                                  sum_row, sum_column);
}

template <int R>
static void dot_rows(
    const Operand &streamed, int64_t r0, int64_t r1, const Operand &kept, int64_t c0, int64_t c1,
    int64_t K, float *sums, int64_t sum_row, int64_t sum_column
) {
    int64_t r = r0;
    for (; r + R <= r1; r += R) {
        const Element *rows = streamed.row(r, K);
        dot_columns<R, DOT_COLUMNS>(rows, kept, c0, c1, K, (const char *)rows + PREFETCH_BYTES,
                                    sums + (r - r0) * sum_row, sum_row, sum_column);
    }
    if constexpr (R > 1)
        if (r < r1)
            dot_rows<R / 2>(streamed, r, r1, kept, c0, c1, K, sums + (r - r0) * sum_row, sum_row,
                            sum_column);
}

constexpr int64_t DOT_CHUNK = 64;

template <class Epilogue>
static void dot_product(
    const Operand &lhs, const Operand &rhs, int64_t K, int64_t b, int member, int team,
    const Epilogue &epilogue
) {
    const Operand &streamed = (STREAM == RHS) ? rhs : lhs, &kept = (STREAM == RHS) ? lhs : rhs;
    alignas(64) float sums[DOT_CHUNK * DOT_CHUNK];
    const int64_t first = streamed.rows * member / team, last = streamed.rows * (member + 1) / team;
    for (int64_t r = first; r < last; r += DOT_CHUNK) {
        const int64_t r1 = least(r + DOT_CHUNK, last);
        for (int64_t c = 0; c < kept.rows; c += DOT_CHUNK) {
            const int64_t c1 = least(c + DOT_CHUNK, kept.rows);
            if (STREAM == RHS) {
                dot_rows<DOT_ROWS>(streamed, r, r1, kept, c, c1, K, sums, 1, DOT_CHUNK);
                for (int64_t i = c; i < c1; i++) epilogue(b, i, r, r1 - r, sums + (i - c) * DOT_CHUNK);
            } else {
                dot_rows<DOT_ROWS>(streamed, r, r1, kept, c, c1, K, sums, DOT_CHUNK, 1);
                for (int64_t i = r; i < r1; i++) epilogue(b, i, c, c1 - c, sums + (i - r) * DOT_CHUNK);
            }
        }
    }
}

// ---------------------------------------------------------------- AMX: tiles of 16 × 16 sums
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

// Walks memory that the next block needs, a few lines with every step of this one.
struct Ahead {
    const char *next, *end;
    int64_t lines;
    inline void step() {
        const char *stop = next + 64 * lines;
        if (stop > end) stop = end;
        for (; next < stop; next += 64) __builtin_prefetch(next, 0, PREFETCH_LEVEL);
    }
};

constexpr int64_t TILE_K = 32, TILE_ELEMENTS = 512;

// The B tile of 16 packed rows and 32 k: pairs along k, [k/2][row][2], zeros beyond the ends.
static inline void pack_tile(const Operand &from, int64_t K, int64_t r0, int64_t k0, uint16_t *to) {
    Words v[16];
    if (r0 + 16 <= from.rows && k0 + TILE_K <= K) {
        const char *first = (const char *)from.row(r0, K) + 2 * k0;
#pragma GCC unroll 16
        for (int r = 0; r < 16; r++) memcpy(&v[r], first + 2 * r * K, 64);
    } else {
        memset(v, 0, sizeof v);
        for (int64_t r = 0; r < 16 && r0 + r < from.rows; r++)
            memcpy(&v[r], from.row(r0 + r, K) + k0, 2 * least(TILE_K, K - k0));
    }
    transpose(v);
    memcpy(to, v, sizeof v);
}

template <int R, int C> struct TileBlock {
    static constexpr int A = R * C, B = A + R, SPARE = 8 - B;
    template <int N> static inline void zero() {
        if constexpr (N < R * C) {
            tile_zero<N>();
            zero<N + 1>();
        }
    }
    template <int N> static inline void load_rows(const uint16_t *const (&rows)[R], int64_t k, int64_t stride) {
        if constexpr (N < R) {
            tile_load<A + N>(rows[N] + k, stride);
            load_rows<N + 1>(rows, k, stride);
        }
    }
    template <int N, int M> static inline void multiply_rows() {
        if constexpr (M < R) {
            tile_multiply_add<M * C + N, A + M, B + N % SPARE>();
            multiply_rows<N, M + 1>();
        }
    }
    template <int N> static inline void columns(const uint16_t *packed, int64_t tiles) {
        if constexpr (N < C) {
            tile_load<B + N % SPARE>(packed + N * tiles * TILE_ELEMENTS, 64);
            multiply_rows<N, 0>();
            columns<N + 1>(packed, tiles);
        }
    }
    template <int N> static inline void store(float *sums) {
        if constexpr (N < R * C) {
            tile_store<N>(sums + (N / C) * 16 * 16 * C + N % C * 16, 64 * C);
            store<N + 1>(sums);
        }
    }
    // sums[16 R][16 C]
    static inline void run(
        const uint16_t *const (&rows)[R], const uint16_t *const (&tails)[R], int64_t stride,
        const uint16_t *packed, int64_t K, Ahead &ahead, float *sums
    ) {
        const int64_t whole = K / TILE_K, tiles = (K + TILE_K - 1) / TILE_K;
        zero<0>();
        for (int64_t t = 0; t < whole; t++) {
            load_rows<0>(rows, t * TILE_K, stride);
            columns<0>(packed + t * TILE_ELEMENTS, tiles);
            if (PREFETCH_BYTES) ahead.step();
        }
        if (whole < tiles) {
            load_rows<0>(tails, 0, 64);
            columns<0>(packed + whole * TILE_ELEMENTS, tiles);
        }
        store<0>(sums);
    }
};

struct AmxProduct {
    const Operand &streamed, &kept;
    const uint16_t *packed;
    int64_t K, b;

    template <int R, int C, class Epilogue>
    void sums_of(const int64_t (&first)[R], const uint16_t *const (&rows)[R], const uint16_t *const (&tails)[R],
                 int64_t stride, int64_t c0, Ahead &ahead, const Epilogue &epilogue) const {
        alignas(64) float sums[R * C * 256];
        const int64_t tiles = (K + TILE_K - 1) / TILE_K;
        TileBlock<R, C>::run(rows, tails, stride, packed + c0 / 16 * tiles * TILE_ELEMENTS, K, ahead, sums);
        const int64_t columns = least(16 * C, kept.rows - c0);
        if constexpr (STREAM == RHS) {
            alignas(64) float turned[16 * C][16 * R];
            for (int r = 0; r < R; r++)
                for (int c = 0; c < C; c++) {
                    Words v[16];
#pragma GCC unroll 16
                    for (int l = 0; l < 16; l++) memcpy(&v[l], sums + ((r * 16 + l) * C + c) * 16, 64);
                    transpose(v);
#pragma GCC unroll 16
                    for (int l = 0; l < 16; l++) memcpy(&turned[16 * c + l][16 * r], &v[l], 64);
                }
            bool adjacent = streamed.rows >= 16;
            for (int r = 1; r < R; r++) adjacent = adjacent && first[r] == first[r - 1] + 16;
            if (adjacent)
                for (int64_t c = 0; c < columns; c++) epilogue(b, c0 + c, first[0], 16 * R, turned[c]);
            else
                for (int r = 0; r < R; r++)
                    for (int64_t c = 0; c < columns; c++)
                        epilogue(b, c0 + c, first[r], least(16, streamed.rows), turned[c] + 16 * r);
        } else {
            for (int r = 0; r < R; r++)
                for (int64_t l = 0; l < least(16, streamed.rows); l++)
                    epilogue(b, first[r] + l, c0, columns, sums + (r * 16 + l) * 16 * C);
        }
    }

    template <int R, class Epilogue>
    void block(int64_t tile, const uint16_t *padded, Ahead &ahead, const Epilogue &epilogue) const {
        int64_t first[R], stride = 2 * K;
        const uint16_t *rows[R], *tails[R];
        alignas(64) uint16_t tail[R][16][TILE_K];
        const int64_t whole = K / TILE_K * TILE_K;
        for (int r = 0; r < R; r++) {
            first[r] = least(16 * (tile + r), streamed.rows < 16 ? 0 : streamed.rows - 16);
            rows[r] = padded ? padded : streamed.row(first[r], K);
            tails[r] = tail[r][0];
            if (whole < K) {
                memset(tail[r], 0, sizeof tail[r]);
                for (int l = 0; l < 16; l++) memcpy(tail[r][l], rows[r] + l * K + whole, 2 * (K - whole));
            }
        }
        int64_t c = 0;
        for (; c + 16 * (COLUMN_TILES - 1) < kept.rows; c += 16 * COLUMN_TILES)
            sums_of<R, COLUMN_TILES>(first, rows, tails, stride, c, ahead, epilogue);
        for (; c < kept.rows; c += 16) sums_of<R, 1>(first, rows, tails, stride, c, ahead, epilogue);
    }
};

template <class Epilogue>
static void amx_product(
    const Operand &lhs, const Operand &rhs, int64_t K, int64_t b, int member, int team, char *memory,
    const Epilogue &epilogue
) {
    const Operand &streamed = (STREAM == RHS) ? rhs : lhs, &kept = (STREAM == RHS) ? lhs : rhs;
    const int64_t k_tiles = (K + TILE_K - 1) / TILE_K, column_tiles = (kept.rows + 15) / 16;
    const int64_t row_tiles = (streamed.rows + 15) / 16;
    const int64_t first = row_tiles * member / team, last = row_tiles * (member + 1) / team;
    uint16_t *packed = (uint16_t *)memory;
    for (int64_t p = column_tiles * k_tiles * member / team; p < column_tiles * k_tiles * (member + 1) / team; p++)
        pack_tile(kept, K, p / k_tiles * 16, p % k_tiles * TILE_K, packed + p * TILE_ELEMENTS);
    uint16_t *padded = nullptr;
    if (streamed.rows < 16 && first < last) {
        padded = packed + column_tiles * k_tiles * TILE_ELEMENTS;
        memset(padded, 0, 32 * K);
        memcpy(padded, streamed.data, 2 * streamed.rows * K);
    }
    if (team > 1) {
#pragma omp barrier
    }
    const AmxProduct product{streamed, kept, packed, K, b};
    tiles_begin();
    const int64_t steps = ((column_tiles + COLUMN_TILES - 1) / COLUMN_TILES) * (K / TILE_K) + 1;
    const int64_t lines = (ROW_TILES * 16 * 2 * K / 64 + steps - 1) / steps;
    const char *end = (const char *)streamed.row(last * 16 < streamed.rows ? last * 16 : streamed.rows, K);
    Ahead ahead{(const char *)streamed.row(16 * (first + ROW_TILES), K), end, lines};
    int64_t tile = first;
    for (; tile + ROW_TILES <= last; tile += ROW_TILES) product.block<ROW_TILES>(tile, padded, ahead, epilogue);
    for (; tile < last; tile++) product.block<1>(tile, padded, ahead, epilogue);
    tiles_end();
    if (team > 1) {
#pragma omp barrier
    }
}
#else
static bool amx_granted() { return false; }
#endif

// ---------------------------------------------------------------- the whole call

constexpr bool IS_BFLOAT16 = sizeof(Element) == 2 && (Element)0.5f == 0;

struct Sizes {
    int64_t batches, I, J, K, lhs_batch, rhs_batch;
};

static void turn(const Element *from, Element *to, int64_t rows, int64_t K, int member, int team) {
    // from[k][row] → to[row][k], in blocks that fit the L1 cache
    const int64_t first = rows * member / team, last = rows * (member + 1) / team;
    for (int64_t r0 = first; r0 < last; r0 += 32)
        for (int64_t k0 = 0; k0 < K; k0 += 32)
            for (int64_t r = r0; r < least(r0 + 32, last); r++)
                for (int64_t k = k0; k < least(k0 + 32, K); k++) to[r * K + k] = from[k * rows + r];
}

template <class Epilogue>
static int matrix_product(const Element *lhs, const Element *rhs, const Sizes &s, const Epilogue &epilogue) {
    if (s.batches * s.I * s.J == 0) return 0;
    const int64_t kept = (STREAM == RHS) ? s.I : s.J;
    const bool amx = IS_BFLOAT16 && PATH != DOT && amx_granted() &&
                     (PATH == AMX || kept > DOT_MAX_ROWS);
    if (PATH == AMX && !amx) return 1;
    const int threads = omp_get_max_threads();
    const int teams = s.batches >= threads ? threads : 1;
    const int64_t pack = ((kept + 15) / 16 * 16 + 16) * ((s.K + 31) / 32 * 32) * 2;
    const int64_t turned = (!LHS_K_CONTIGUOUS * s.I + !RHS_K_CONTIGUOUS * s.J) * s.K * (int64_t)sizeof(Element);
    const int64_t each = (pack * amx + turned + 127) / 64 * 64;
    char *memory = scratch(each * teams);
    if (!memory) return 2;
#pragma omp parallel num_threads(threads)
    {
        const int thread = omp_get_thread_num();
        const int team = teams > 1 ? 1 : omp_get_num_threads(), member = teams > 1 ? 0 : thread;
        char *own = memory + (teams > 1 ? thread * each : 0);
        const int64_t stride = teams > 1 ? omp_get_num_threads() : 1;
        for (int64_t b = teams > 1 ? thread : 0; b < s.batches; b += stride) {
            Operand l{lhs + b * s.lhs_batch, s.I}, r{rhs + b * s.rhs_batch, s.J};
            Element *copy = (Element *)(own + pack * amx);
            if (!LHS_K_CONTIGUOUS) {
                turn(l.data, copy, s.I, s.K, member, team);
                l.data = copy;
                copy += s.I * s.K;
            }
            if (!RHS_K_CONTIGUOUS) {
                turn(r.data, copy, s.J, s.K, member, team);
                r.data = copy;
            }
            if (!(LHS_K_CONTIGUOUS && RHS_K_CONTIGUOUS) && team > 1) {
#pragma omp barrier
            }
#if HAS_AMX_CODE
            if constexpr (IS_BFLOAT16) {
                if (amx) {
                    amx_product(l, r, s.K, b, member, team, own, epilogue);
                    continue;
                }
            }
#endif
            dot_product(l, r, s.K, b, member, team, epilogue);
            if (!(LHS_K_CONTIGUOUS && RHS_K_CONTIGUOUS) && team > 1) {
#pragma omp barrier
            }
        }
    }
    return 0;
}

// ENTRY {
extern "C" int run(const uint16_t *in_x, const uint16_t *in_weight, const uint16_t *in_bias, uint16_t *out_output, int64_t axis_rows, int64_t axis_in_features, int64_t axis_out_features) {
    const int64_t batches = 1, I = axis_rows, J = axis_out_features, K = axis_in_features;
    const Sizes sizes{batches, I, J, K, 0, 0};
    return matrix_product(in_x, in_weight, sizes, Epilogue{I, J, out_output, in_bias});
}
// } ENTRY
