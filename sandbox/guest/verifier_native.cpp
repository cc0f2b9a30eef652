// What a verifier does often and torch does slowly, compiled once per verifier.
#include <cstddef>
#include <cstdint>
#include <cstring>

// How many elements differ by more than atol + rtol |y|; a NaN differs from everything.
template <typename T, typename Widen>
static size_t differing(const T* x, const T* y, size_t n, float atol, float rtol, Widen widen) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    const float a = widen(x[i]), b = widen(y[i]);
    const float error = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    count += !(error <= atol + rtol * size);
  }
  return count;
}
extern "C" size_t differing_float32(const float* x, const float* y, size_t n, float a, float r) {
  return differing(x, y, n, a, r, [](float v) { return v; });
}
extern "C" size_t differing_bfloat16(const uint16_t* x, const uint16_t* y, size_t n, float a,
                                     float r) {
  return differing(x, y, n, a, r, [](uint16_t v) {
    const uint32_t bits = uint32_t(v) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
  });
}

// Errors against an oracle in one pass; `missed` also counts what is not a number.
struct Errors {
  double largest, relative;
  size_t missed;
};
template <typename T, typename Widen>
static void measure(const T* found, const double* expected, size_t n, double atol, double rtol,
                    Errors* errors, Widen widen) {
  double largest = 0, relative = 0;
  size_t missed = 0;
  const double least = atol > 1e-300 ? atol : 1e-300;
#pragma omp simd reduction(max : largest, relative) reduction(+ : missed)
  for (size_t i = 0; i < n; ++i) {
    const double x = widen(found[i]), y = expected[i];
    const double error = __builtin_fabs(x - y), size = __builtin_fabs(y);
    const double share = error / (size > least ? size : least);
    missed += !(error <= atol + rtol * size);
    largest = error > largest ? error : largest;
    relative = share > relative ? share : relative;
  }
  *errors = {largest, relative, missed};
}
extern "C" void errors_float32(const float* found, const double* expected, size_t n, double atol,
                               double rtol, Errors* errors) {
  measure(found, expected, n, atol, rtol, errors, [](float v) { return double(v); });
}
extern "C" void errors_bfloat16(const uint16_t* found, const double* expected, size_t n,
                                double atol, double rtol, Errors* errors) {
  measure(found, expected, n, atol, rtol, errors, [](uint16_t v) {
    const uint32_t bits = uint32_t(v) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return double(wide);
  });
}

// Evict a range from every cache of every core: flushing is coherent by physical address, so the
// verifier can do it through its own mapping of memory that a worker maps elsewhere.
extern "C" void evict(void* start, size_t bytes) {
  const uintptr_t line = 64;
  uintptr_t p = reinterpret_cast<uintptr_t>(start) & ~(line - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(start) + bytes;
#if defined(__x86_64__)
#if defined(__CLFLUSHOPT__)
  for (; p < end; p += line) asm volatile("clflushopt (%0)" ::"r"(p) : "memory");
#else
  for (; p < end; p += line) asm volatile("clflush (%0)" ::"r"(p) : "memory");
#endif
  asm volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
  for (; p < end; p += line) asm volatile("dc civac, %0" ::"r"(p) : "memory");
  asm volatile("dsb sy" ::: "memory");
#else
#error "no instruction is known here that evicts a cache line"
#endif
}
