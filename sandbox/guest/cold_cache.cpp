// Evict a range from every cache of every core: flushing is coherent by physical address, so the
// verifier can do it through its own mapping of memory that a worker maps elsewhere.
#include <cstddef>
#include <cstdint>

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
