// What this machine's cores reach at most: memory bandwidth on the kind of buffers that kernels are
// handed (memfd, MAP_SHARED, 4-kB pages, evicted from every cache), and arithmetic rates out of
// registers. Prints JSON: each ceiling with its samples, best last.
#include <omp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr size_t kBufferBytes = size_t{64} << 20;
constexpr int kMemoryRepeats = 7;
constexpr int kArithmeticRepeats = 5;
constexpr double kArithmeticSeconds = 0.02;
constexpr int kLaunches = 41;
// A scored call comes after its buffers were evicted: the other threads sleep by then.
constexpr int kIdleMicroseconds = 5000;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kAccumulators = 24;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kAccumulators = 12;
#else
constexpr int kVectorBytes = 16, kAccumulators = 24;
#endif
typedef float FloatVector __attribute__((vector_size(kVectorBytes)));
typedef uint64_t WordVector __attribute__((vector_size(kVectorBytes)));
constexpr size_t kVectors = kBufferBytes / kVectorBytes;

volatile float sink;

// Makes g++ forget what is in a vector register: accumulators that it knows to be equal are
// computed once.
#if defined(__AVX512F__)
#define OPAQUE(value) asm volatile("" : "+v"(value))
#elif defined(__x86_64__)
#define OPAQUE(value) asm volatile("" : "+x"(value))
#else
#define OPAQUE(value) asm volatile("" : "+w"(value))
#endif

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

WordVector* shared_buffer() {
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "ceiling", 0));
  if (fd < 0 || ftruncate(fd, kBufferBytes) != 0) {
    perror("memfd_create");
    exit(2);
  }
  void* mapped =
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) {
    perror("mmap");
    exit(2);
  }
  return static_cast<WordVector*>(mapped);
}

void evict(const void* start) {
  const char* base = static_cast<const char*>(start);
#pragma omp parallel
  {
#pragma omp for
    for (size_t offset = 0; offset < kBufferBytes; offset += 64) {
#if defined(__x86_64__) && defined(__CLFLUSHOPT__)
      asm volatile("clflushopt (%0)" ::"r"(base + offset) : "memory");
#elif defined(__x86_64__)
      asm volatile("clflush (%0)" ::"r"(base + offset) : "memory");
#elif defined(__aarch64__)
      asm volatile("dc civac, %0" ::"r"(base + offset) : "memory");
#endif
    }
    __sync_synchronize();
  }
}

void store_past_caches(WordVector* to, WordVector value) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
#else
  *to = value;
#endif
}

// Each thread copies one contiguous part. The empty asm keeps g++ from calling memcpy, which
// would choose between the two kinds of stores by itself.
template <bool kPastCaches>
void copy(WordVector* to, const WordVector* from) {
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < kVectors; i += 4) {
    WordVector values[4];
    for (int k = 0; k < 4; ++k) values[k] = from[i + k];
    asm volatile("" ::: "memory");
    for (int k = 0; k < 4; ++k) {
      if constexpr (kPastCaches) {
        store_past_caches(to + i + k, values[k]);
      } else {
        to[i + k] = values[k];
      }
    }
  }
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

void read(const WordVector* from) {
  uint64_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (size_t i = 0; i < kVectors; i += 8) {
    WordVector sum = {};
    for (int k = 0; k < 8; ++k) sum ^= from[i + k];
    total += sum[0];
  }
  sink = static_cast<float>(total);
}

// One thread's work: `iterations` rounds, and the operations of one round.
struct Arithmetic {
  std::function<void(int64_t iterations)> run;
  double operations_per_iteration;
};

void float32_rounds(int64_t iterations) {
  FloatVector sums[kAccumulators] = {};
  for (auto& sum : sums) OPAQUE(sum);
  volatile float one = 0.999f, two = 0.001f;
  const FloatVector factor = FloatVector{} + one, term = FloatVector{} + two;
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (int k = 0; k < kAccumulators; ++k) sums[k] = sums[k] * factor + term;
  }
  float total = 0;
  for (const FloatVector& sum : sums) total += sum[0];
  sink = total;
}

#if defined(__AVX512FP16__)
typedef _Float16 HalfVector __attribute__((vector_size(64)));
void float16_rounds(int64_t iterations) {
  HalfVector sums[kAccumulators] = {};
  for (auto& sum : sums) OPAQUE(sum);
  volatile float one = 0.99f, two = 0.01f;
  const HalfVector factor = HalfVector{} + static_cast<_Float16>(one);
  const HalfVector term = HalfVector{} + static_cast<_Float16>(two);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (int k = 0; k < kAccumulators; ++k) sums[k] = sums[k] * factor + term;
  }
  float total = 0;
  for (const HalfVector& sum : sums) total += static_cast<float>(sum[0]);
  sink = total;
}
#endif

#if defined(__AVX512BF16__)
void bfloat16_dot_rounds(int64_t iterations) {
  __m512 sums[kAccumulators] = {};
  for (auto& sum : sums) OPAQUE(sum);
  volatile float one = 0.5f;
  const __m512bh ones = _mm512_cvtne2ps_pbh(_mm512_set1_ps(one), _mm512_set1_ps(one));
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (int k = 0; k < kAccumulators; ++k) sums[k] = _mm512_dpbf16_ps(sums[k], ones, ones);
  }
  float total = 0;
  for (const __m512& sum : sums) total += sum[0];
  sink = total;
}
#endif

#if defined(__AVX512VNNI__)
void int8_dot_rounds(int64_t iterations) {
  __m512i sums[kAccumulators] = {};
  for (auto& sum : sums) OPAQUE(sum);
  volatile int one = 0x01010101;
  const __m512i ones = _mm512_set1_epi32(one);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 32
    for (int k = 0; k < kAccumulators; ++k) sums[k] = _mm512_dpbusd_epi32(sums[k], ones, ones);
  }
  int64_t total = 0;
  for (const __m512i& sum : sums) total += sum[0];
  sink = static_cast<float>(total);
}
#endif

#if defined(__AMX_TILE__)
struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// The kernel hands out the tile registers on request, once for the process.
bool request_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

void configure_tiles() {
  TileConfig config = {};
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  asm volatile("" ::"r"(&config) : "memory");  // g++ 12 takes the intrinsic to read 8 bytes only
  _tile_loadconfig(&config);
  _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
  _tile_zero(4); _tile_zero(5); _tile_zero(6); _tile_zero(7);
}

#if defined(__AMX_BF16__)
void bfloat16_tile_rounds(int64_t iterations) {
  configure_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
#endif

#if defined(__AMX_INT8__)
void int8_tile_rounds(int64_t iterations) {
  configure_tiles();
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
}
#endif
#endif

double parallel_seconds(const Arithmetic& work, int64_t iterations) {
  return seconds([&] {
#pragma omp parallel
    work.run(iterations);
  });
}

// Operations per second of all threads, ascending.
std::vector<double> rates_of(const Arithmetic& work) {
  int64_t iterations = 1000;
  double elapsed = parallel_seconds(work, iterations);
  while (elapsed < kArithmeticSeconds) {
    iterations *= 2;
    elapsed = parallel_seconds(work, iterations);
  }
  std::vector<double> rates;
  for (int i = 0; i < kArithmeticRepeats; ++i) {
    const double operations =
        work.operations_per_iteration * static_cast<double>(iterations) * omp_get_max_threads();
    rates.push_back(operations / parallel_seconds(work, iterations));
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

// With all threads and with half of them: a virtual machine's cores are often the two threads of
// one core, and then fewer of them move more.
std::vector<double> bandwidths(double bytes, const std::vector<void*>& buffers,
                               const std::function<void()>& body) {
  std::vector<double> rates;
  const int all = omp_get_max_threads();
  for (const int threads : {all, std::max(1, all / 2)}) {
    for (int i = 0; i < kMemoryRepeats; ++i) {
      for (void* buffer : buffers) evict(buffer);
      omp_set_num_threads(threads);
      rates.push_back(bytes / seconds(body));
      omp_set_num_threads(all);
    }
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

void print(const char* name, const std::vector<double>& values) {
  printf("  \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) printf("%s%.6g", i ? ", " : "", values[i]);
  printf("],\n");
}

}  // namespace

// Not inlined, as a kernel's entry point is not.
extern "C" __attribute__((noinline)) void empty_region() {
#pragma omp parallel
  asm volatile("" ::: "memory");
}

int main() {
  WordVector* from = shared_buffer();
  WordVector* to = shared_buffer();
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < kVectors; ++i) from[i] = WordVector{} + i;
  printf("{\n");
  print("copy_plain_bytes_per_s",
        bandwidths(2.0 * kBufferBytes, {from, to}, [&] { copy<false>(to, from); }));
  print("copy_past_caches_bytes_per_s",
        bandwidths(2.0 * kBufferBytes, {from, to}, [&] { copy<true>(to, from); }));
  print("read_bytes_per_s", bandwidths(1.0 * kBufferBytes, {from}, [&] { read(from); }));

  constexpr double kLanes = kVectorBytes / 4, kRounds = kAccumulators;
  print("float32_operations_per_s", rates_of({float32_rounds, 2 * kLanes * kRounds}));
#if defined(__AVX512FP16__)
  print("float16_avx512_fp16_operations_per_s", rates_of({float16_rounds, 4 * kLanes * kRounds}));
#endif
#if defined(__AVX512BF16__)
  print("bfloat16_avx512_bf16_operations_per_s",
        rates_of({bfloat16_dot_rounds, 4 * kLanes * kRounds}));
#endif
#if defined(__AVX512VNNI__)
  print("int8_avx512_vnni_operations_per_s", rates_of({int8_dot_rounds, 8 * kLanes * kRounds}));
#endif
#if defined(__AMX_TILE__)
  const bool tiles = request_tiles();
#if defined(__AMX_BF16__)
  if (tiles) {
    print("bfloat16_amx_operations_per_s", rates_of({bfloat16_tile_rounds, 4.0 * 16 * 16 * 64}));
  }
#endif
#if defined(__AMX_INT8__)
  if (tiles) print("int8_amx_operations_per_s", rates_of({int8_tile_rounds, 4.0 * 16 * 16 * 128}));
#endif
#endif

  std::vector<double> launches;
  for (int i = 0; i < kLaunches; ++i) {
    usleep(kIdleMicroseconds);
    launches.push_back(seconds(empty_region) * 1e6);
  }
  std::sort(launches.begin(), launches.end());
  print("launch_us", launches);
  const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE), level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  printf("  \"vector_bytes\": %d,\n  \"threads\": %d,\n", kVectorBytes, omp_get_max_threads());
  printf("  \"level2_cache_bytes\": %ld,\n  \"level3_cache_bytes\": %ld\n}\n",
         std::max(0L, level2), std::max(0L, level3));
}
