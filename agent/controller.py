"""The review of a submission before anything of it runs: a fast answer, never the only gate.

What a candidate may really do is decided by the sandbox and the verifier; these rules tell a
writer within a millisecond that a submission is pointless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.attempt import Attempt
from problems.problem import Problem, Target
from problems.record import Digest, Record, digest_of
from problems.solution import Language, Solution

LANGUAGES = {
    Target.CPU: (Language.CPP, Language.PYTORCH),
    Target.CUDA: (),
}
"""What the evaluator of each target builds."""
MAX_SOURCE_BYTES = 256 << 10
MAX_FILES = 32


class Rejection(Record):
    rule: str
    reason: str

    @property
    def log(self) -> str:
        return f"{self.rule}: {self.reason}"


class _Tripwire(Record):
    rule: str
    pattern: str
    reason: str
    languages: tuple[Language, ...] = (Language.CPP, Language.PYTORCH)


_CPP, _PYTHON = (Language.CPP,), (Language.PYTORCH,)
_TRIPWIRES = (
    _Tripwire(
        rule="host-files",
        pattern=r"/proc/|/sys/|/dev/(?!null)|\bfopen\s*\(|\b[io]?fstream\b|\bopen(?:at)?\s*\(",
        reason="a kernel reads its inputs and writes its outputs, no files",
    ),
    _Tripwire(
        rule="process",
        pattern=r"\bv?fork\s*\(|\bexec[vl]\w*\s*\(|\bsystem\s*\(|\bpopen\b|\bsubprocess\b|"
        r"\bmultiprocessing\b|\bposix_spawn|\bptrace\b|\bprocess_vm_|\bkill\s*\(",
        reason="a kernel starts, reads and signals no process",
    ),
    _Tripwire(
        rule="thread",
        pattern=r"\bpthread_create\b|\bstd::(?:j?thread|async)\b|\b_thread\b|"
        r"\bimport\s+threading\b|\bfrom\s+threading\b|\bconcurrent\.futures\b",
        reason="threads of its own could outlive the timed call; use OpenMP",
    ),
    _Tripwire(
        rule="network",
        pattern=r"\bsocket\b|<sys/socket\.h>|\burllib\b|\brequests\b|\bhttp\.client\b",
        reason="the evaluation is offline",
    ),
    _Tripwire(
        rule="loader",
        pattern=r"\bdl(?:open|sym|iterate_phdr)\b|\bctypes\b|\bcffi\b|\bimportlib\b|__import__|"
        r"\bload_inline\b|\bcpp_extension\b|\bmprotect\b|\.incbin|\bpickle\b|\bmarshal\b",
        reason="code comes from the declared sources only, compiled in the declared language",
    ),
    _Tripwire(
        rule="clock",
        pattern=r"\bclock_gettime\b|\bgettimeofday\b|\b__rdtscp?\b|\bperf_counter|\btime\.\w+\s*=|"
        r"\bmonotonic\b|\bsteady_clock\b|\bhigh_resolution_clock\b|\bLD_PRELOAD\b",
        reason="a kernel neither reads nor replaces a clock",
    ),
    _Tripwire(
        rule="environment",
        pattern=r"\b(?:secure_)?getenv\b|\bsetenv\b|\bputenv\b|\bos\.environ\b|\benviron\b",
        reason="a kernel must not depend on where it runs",
    ),
    _Tripwire(
        rule="outside-the-call",
        pattern=r"__attribute__\s*\(\s*\(\s*(?:con|de)structor|\batexit\b|\bsignal\s*\(|"
        r"\bsigaction\b|\bsetjmp\b|\blongjmp\b|\bptrace\b",
        reason="nothing runs before, after or beside the call",
    ),
    _Tripwire(
        rule="patching",
        pattern=r"\bsys\.modules\b|\bgc\.get_\w+|\binspect\b|\b_getframe\b|\bbuiltins\b|"
        r"\bsetattr\s*\(|\btorch(?:\.\w+)+\s*=(?!=)|\b__torch_(?:function|dispatch)__\b",
        reason="a kernel changes and inspects nothing of the process that calls it",
        languages=_PYTHON,
    ),
    _Tripwire(
        rule="dynamic-code",
        pattern=r"(?<![\w.])(?:eval|exec|compile)\s*\(",
        reason="what runs must be readable in the sources",
        languages=_PYTHON,
    ),
    _Tripwire(
        rule="system-call",
        pattern=r"\bsyscall\s*\((?!\s*SYS_arch_prctl\b)|\basm\b[^;]*\b(?:syscall|sysenter)\b|int\s*\$?0x80",
        reason="a kernel calls no operating system",
        languages=_CPP,
    ),
    _Tripwire(
        rule="embedded-binary",
        pattern=r"[A-Za-z0-9+/=]{512,}|(?:\\x[0-9a-fA-F]{2}){128,}|"
        r"(?:0[xX][0-9a-fA-F]{1,2}\s*,\s*){256,}",
        reason="a long encoded blob is no readable source",
    ),
)


class Controller:
    """Refuses what cannot be a fair kernel; remembers normalised sources, so give it one run."""

    def __init__(
        self, problem: Problem, target: Target, load: Callable[[Digest], Solution]
    ) -> None:
        self._problem = problem
        self._target = target
        self._load = load
        self._normalised: dict[Digest, str] = {}

    def review(self, solution: Solution, earlier: Sequence[Attempt] = ()) -> Rejection | None:
        """The first rule that the solution breaks; None: it may be built."""
        return (
            self._scope(solution)
            or _size(solution)
            or _tripwire(solution)
            or self._duplicate(solution, earlier)
        )

    def _scope(self, solution: Solution) -> Rejection | None:
        definition = self._problem.definition.name
        if solution.definition != definition:
            reason = f"it solves {solution.definition!r}; this problem is {definition!r}"
            return Rejection(rule="definition", reason=reason)
        allowed = LANGUAGES[self._target]
        if solution.language not in allowed:
            reason = (
                f"{solution.language} does not run on {self._target}; "
                f"languages: {', '.join(allowed) or 'none yet'}"
            )
            return Rejection(rule="language", reason=reason)
        return None

    def _duplicate(self, solution: Solution, earlier: Sequence[Attempt]) -> Rejection | None:
        digest = normalised_digest(solution)
        for attempt in earlier:
            known = self._normalised.get(attempt.solution)
            if known is None:
                known = normalised_digest(self._load(attempt.solution))
                self._normalised[attempt.solution] = known
            if known == digest:
                reason = f"the same source as attempt {attempt.index} but for comments and spaces"
                return Rejection(rule="duplicate", reason=reason)
        return None


def _size(solution: Solution) -> Rejection | None:
    size = sum(len(source.content.encode()) for source in solution.sources)
    if size > MAX_SOURCE_BYTES or len(solution.sources) > MAX_FILES:
        reason = (
            f"{size} bytes in {len(solution.sources)} files; at most {MAX_SOURCE_BYTES} bytes in "
            f"{MAX_FILES} files"
        )
        return Rejection(rule="size", reason=reason)
    return None


def _tripwire(solution: Solution) -> Rejection | None:
    for source in solution.sources:
        text = without_comments(source.content, solution.language)
        for tripwire in _TRIPWIRES:
            found = solution.language in tripwire.languages and re.search(tripwire.pattern, text)
            if found:
                line = text.count("\n", 0, found.start()) + 1
                shown = found[0][:40].strip()
                reason = f"{source.path}:{line}: {shown!r}: {tripwire.reason}"
                return Rejection(rule=tripwire.rule, reason=reason)
    return None


_STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_COMMENTS = {
    Language.CPP: re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL),
    Language.PYTORCH: re.compile(rf"(\"\"\".*?\"\"\"|'''.*?'''|{_STRING})|#[^\n]*", re.DOTALL),
}


def without_comments(text: str, language: Language) -> str:
    """Line numbers stay; strings stay as they are."""
    pattern = _COMMENTS.get(language, _COMMENTS[Language.CPP])

    def kept(match: re.Match[str]) -> str:
        return match[1] or "\n" * match[0].count("\n") or " "

    return pattern.sub(kept, text)


def normalised_digest(solution: Solution) -> Digest:
    """Of language, options and sources, without comments and white space."""
    parts = [solution.spec.canonical_json()]
    for source in sorted(solution.sources, key=lambda source: source.path):
        text = without_comments(source.content, solution.language)
        joined = re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split()))
        if solution.language is Language.PYTORCH:
            lines = [line.rstrip() for line in text.splitlines() if line.strip()]
            joined = "\n".join(lines)
        parts += [source.path, joined]
    return digest_of("\0".join(parts).encode())
