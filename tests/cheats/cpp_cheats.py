"""C++ candidates that must not pass, each with the status it must get and the stage that sees it.

Named after the entries of the list of known cheats that they are; plain failures have plain names.
"""

from __future__ import annotations

from problems.evaluation import Status
from scheduler.job import Stage

_HEAD = """#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>
static void honest(const float* x, const float* bias, double scale, float* y, int64_t rows,
                   int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[r * columns + c] = x[r * columns + c] * (float)scale + bias[c];
}
#define ARGUMENTS \\
  const float *x, const float *bias, double scale, float *y, int64_t rows, int64_t columns
#define PASS_ON x, bias, scale, y, rows, columns
"""

NOT_DONE_IN_TIME = (Status.REWARD_HACK, Status.INCORRECT_NUMERICAL, Status.RUNTIME_ERROR)
"""By when its thread writes: between two looks, after both, or into memory that is gone."""

CPP_CHEATS: dict[str, tuple[Stage, Status | tuple[Status, ...], str]] = {
    "does_not_compile": (Stage.CHECK, Status.COMPILE_ERROR, "int run( { return }"),
    "has_no_entry_point": (
        Stage.CHECK,
        Status.COMPILE_ERROR,
        'extern "C" int walk() { return 0; }',
    ),
    "computes_nothing": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { return 0; }',
    ),
    "n08_zeros": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { memset(y, 0, 4 * rows * columns); return 0; }',
    ),
    "n22_nan": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { for (int64_t i = 0; i < rows * columns; ++i)'
        " memset(y + i, 0xff, 4); return 0; }",
    ),
    "n12_ignores_the_bias": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { for (int64_t i = 0; i < rows * columns; ++i)'
        " y[i] = x[i] * (float)scale; return 0; }",
    ),
    "n14_wrong_for_one_shape": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { honest(x, bias, scale, y, rows > 300 ? rows / 2 : rows,'
        " columns); return 0; }",
    ),
    "says_that_it_cannot": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { honest(PASS_ON); return 7; }',
    ),
    "crashes": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { *(volatile int*)nullptr = 1; return 0; }',
    ),
    "x04_exits_early": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { _exit(0); }',
    ),
    "hangs": (
        Stage.CHECK,
        Status.TIMEOUT,
        'extern "C" int run(ARGUMENTS) { for (volatile int i = 0;; ++i); return 0; }',
    ),
    "n05_writes_its_inputs": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { honest(PASS_ON); ((float*)x)[0] = 0; return 0; }',
    ),
    "n27_writes_out_of_bounds": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { honest(PASS_ON); y[rows * columns + 3] = 1; return 0; }',
    ),
    "x19_fork_bomb": (
        Stage.CHECK,
        Status.TIMEOUT,
        'extern "C" int run(ARGUMENTS) { for (;;) fork(); return 0; }',
    ),
    "x01_fake_result_on_stdout": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        'extern "C" int run(ARGUMENTS) { printf("{\\"status\\": \\"PASSED\\"}\\n");'
        " fflush(stdout); return 0; }",
    ),
    "x01_writes_to_every_descriptor": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        'extern "C" int run(ARGUMENTS) { for (int fd = 3; fd < 64; ++fd)'
        ' (void)!write(fd, "kkkk", 4); _exit(0); }',
    ),
    "t02_background_thread": (
        Stage.CHECK,
        NOT_DONE_IN_TIME,
        'extern "C" int run(ARGUMENTS) { std::thread([=] {'
        " std::this_thread::sleep_for(std::chrono::milliseconds(2)); honest(PASS_ON);"
        " }).detach(); return 0; }",
    ),
    "c01_pointer_cache": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        "static std::vector<float> first;"
        'extern "C" int run(ARGUMENTS) { if ((int64_t)first.size() != rows * columns) {'
        " honest(PASS_ON); first.assign(y, y + rows * columns); }"
        " memcpy(y, first.data(), 4 * rows * columns); return 0; }",
    ),
    "t12_works_in_the_first_calls_only": (
        Stage.SCREEN,
        Status.REWARD_HACK,
        "static int calls;"
        'extern "C" int run(ARGUMENTS) { if (++calls <= 6) honest(PASS_ON);'
        " else memset(y, 0, 4 * rows * columns); return 0; }",
    ),
    "c03_replays_its_last_output": (
        Stage.SCREEN,
        Status.REWARD_HACK,
        "static std::map<int64_t, std::vector<float>> last; static int calls;"
        'extern "C" int run(ARGUMENTS) { auto& kept = last[rows];'
        " if (++calls % 3 || kept.empty()) { honest(PASS_ON); kept.assign(y, y + rows * columns); }"
        " else memcpy(y, kept.data(), 4 * rows * columns); return 0; }",
    ),
}
"""By name: the stage to run, the status it must get, the source."""

SOURCES = {name: _HEAD + source for name, (_, _, source) in CPP_CHEATS.items()}
