"""Mutation testing: how many small faults in the mathematics do the tests notice?

    python tools/mutants.py --jobs 12 --out mutants.jsonl --seconds 540

Draws seeded mutants of the functions in losses, pseudo, methods and metrics: an operator, a constant, an
axis or an argument changed, a statement deleted. Each is tested with the tests of its module, in a fork of a
process that has imported torch, on its own copy of the source. At the end it prints the score and the
survivors, except those that `mutants_equivalent.toml` lists with a reason. The output has a line per mutant;
the same command resumes after an interruption.
"""

import argparse
import ast
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("losses", "pseudo", "methods", "metrics")
EQUIVALENT = ROOT / "tools" / "mutants_equivalent.toml"
CONTRACT = "tests/contract/test_methods.py"
ALSO_TESTED_BY = {
    "losses/divergence": ("methods/iic", "methods/dualrank"),
    "losses/pairs": ("losses/top_k", "losses/contrastive", "methods/rs", "methods/kcl", "methods/joint"),
    "losses/prediction": ("methods/uno", "methods/iic", "methods/rs"),
    "pseudo/likeness": ("pseudo/metric",),
    "pseudo/kmeans": ("estimate/search", "methods/centroids"),
    "pseudo/sinkhorn": ("methods/uno", "methods/comex"),
    "metrics/clustering": ("metrics/silhouette", "metrics/protocols", "engine/evaluate"),
    "metrics/protocols": ("engine/evaluate",),
    "methods/_recipes": ("methods/rkd", "methods/kcl", "core/registry", "run/recipe"),
}
"""Module → further modules whose tests cover it, in this order, after its own."""
REGISTERED = {"kcl": ("kcl", "mcl"), "rs": ("rs", "rs+"), "uno": ("uno-v1", "uno-v2")}
"""Module → the names of its methods in the contract tests, if they are not the module's own."""

BINARY = {"Add": "-", "Sub": "+", "Mult": "/", "Div": "*", "FloorDiv": "*", "Mod": "//", "Pow": "*"}
BINARY |= {"BitAnd": "|", "BitOr": "&"}
COMPARE = {"Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==", "In": "not in"}
COMPARE |= {"NotIn": "in", "Is": "is not", "IsNot": "is"}
SYMBOLS = {"Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**"}
SYMBOLS |= {"BitAnd": "&", "BitOr": "|", "And": "and", "Or": "or", "Lt": "<", "LtE": "<=", "Gt": ">"}
SYMBOLS |= {"GtE": ">=", "Eq": "==", "NotEq": "!=", "In": "in", "NotIn": "not in", "Is": "is"}
SYMBOLS |= {"IsNot": "is not"}
PAIRS = (
    ("min", "max"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("minimum", "maximum"),
    ("mean", "sum"),
    ("any", "all"),
    ("softmax", "log_softmax"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("new_zeros", "new_ones"),
    ("num_known", "num_novel"),
    ("labelled", "unlabelled"),
    ("large_crops", "small_crops"),
    ("rsqrt", "sqrt"),
    ("square", "abs"),
)
NAMES = dict(PAIRS) | {second: first for first, second in PAIRS} | {"no_grad": "enable_grad"}
UNWRAPPED = ("detach", "clamp", "flip", "abs", "normalize", "square")
DROPPED = ("dim", "keepdim", "generator", "stable", "reduction", "maximize", "average_method", "alpha")


@dataclass(frozen=True)
class Mutant:
    """A change to a file: the bytes `start` to `end` become `text`; the line `before` becomes `after`."""

    file: str
    line: int
    function: str
    start: int
    end: int
    text: str
    before: str
    after: str

    @property
    def key(self) -> str:
        return " | ".join((self.file, self.function, self.before, self.after))

    @property
    def module(self) -> str:
        return self.file.removeprefix("src/newfound/").removesuffix(".py")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed (and by which test), timeout or survived."""

    mutant: Mutant
    result: str
    by: str
    seconds: float


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file; only executable code in functions is mutated."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.line_starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.scope: list[str] = []
        self.functions = 0
        self.bound: set[str] = set()
        self.found: list[Mutant] = []
        tree = ast.parse(self.source)
        self.dump = ast.dump(tree)
        self.visit(tree)

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def add(self, start: int, end: int, text: str) -> None:
        """Add a mutant if it is in a function and parses to something else."""
        if not self.functions:
            return
        mutated = self.source[:start] + text.encode() + self.source[end:]
        try:
            if ast.dump(ast.parse(mutated)) == self.dump:
                return
        except SyntaxError:
            return
        line = self.source.count(b"\n", 0, start)
        first, last = self.line_starts[line], self.source.find(b"\n", end)
        before, after = (
            " ".join(lines.decode().split())
            for lines in (
                self.source[first:last],
                self.source[first:start] + text.encode() + self.source[end:last],
            )
        )
        self.found.append(Mutant(self.file, line + 1, ".".join(self.scope), start, end, text, before, after))

    def replace(self, node: ast.expr | ast.stmt | ast.keyword, text: str) -> None:
        self.add(self.start(node), self.end(node), text)

    def swap_symbol(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the operator between two operands."""
        at = self.source.find(old.encode(), self.end(left), self.start(right))
        if at >= 0:
            self.add(at, at + len(old), new)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                self.visit(each)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scope.append(node.name)
        self.functions += 1
        outer, self.bound = self.bound, {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, *node.body):
            if each is not None:
                self.visit(each)
        self.bound = outer
        self.functions -= 1
        self.scope.pop()

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or ast.unparse(node).startswith("log."):
            return
        self.replace(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {
            each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)
        }
        plain = not any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        if names <= self.bound or not plain:
            self.replace(node, "pass")
        self.bound |= names if plain else set()
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip: assertions are only for the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip: f-strings are text for people."""

    def visit_If(self, node: ast.If) -> None:
        self.replace(node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.replace(node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old = SYMBOLS[type(node.op).__name__]
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.swap_symbol(left, right, old, "or" if old == "and" else "and")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        name = type(node.op).__name__
        if name in BINARY:
            self.swap_symbol(node.left, node.right, SYMBOLS[name], BINARY[name])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            name = type(operator).__name__
            self.swap_symbol(left, right, SYMBOLS[name], COMPARE[name])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, self.text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int):
            self.replace(node, str(value + 1))
        elif isinstance(value, float):
            self.replace(node, repr(value * 2 or 1.0))

    def visit_Slice(self, node: ast.Slice) -> None:
        if node.step is None and (node.lower is None) != (node.upper is None):
            bound = node.lower or node.upper
            assert bound is not None
            # The colon is outside the bound's own text.
            swapped = f"{self.text(bound)}:" if node.lower is None else f":{self.text(bound)}"
            self.replace(node, swapped)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in NAMES and isinstance(node.ctx, ast.Load):
            self.replace(node, NAMES[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES and isinstance(node.ctx, ast.Load):
            self.add(self.end(node) - len(node.attr), self.end(node), NAMES[node.attr])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in UNWRAPPED:
            module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("F", "torch")
            self.replace(node, self.text(node.args[0] if module else node.func.value))
        if len(node.args) > 1:
            first, second = node.args[:2]
            between = self.source[self.end(first) : self.start(second)].decode()
            self.add(self.start(first), self.end(second), f"{self.text(second)}{between}{self.text(first)}")
        for each in node.keywords:
            if each.arg in DROPPED:
                start = self.source.rfind(b"," if node.args else b"(", 0, self.start(each))
                self.add(start + (not node.args), self.end(each), "")
        self.generic_visit(node)


def mutants_of(file: str) -> list[Mutant]:
    return Finder(file, (ROOT / file).read_bytes()).found


def every_mutant() -> list[Mutant]:
    paths = [path for name in PACKAGES for path in sorted((ROOT / "src/newfound" / name).glob("*.py"))]
    return [mutant for path in paths for mutant in mutants_of(path.relative_to(ROOT).as_posix())]


def equivalents() -> dict[str, str]:
    """Key → reason, for the mutants that change nothing a caller can observe."""
    if not EQUIVALENT.exists():
        return {}
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    fields = ("file", "function", "before", "after")
    return {" | ".join(each[field] for field in fields): each["reason"] for each in listed}


def pytest_calls(module: str) -> list[list[str]]:
    """The arguments of each pytest call: the tests of the module, then the contract tests."""
    names = (module, *ALSO_TESTED_BY.get(module, ()))
    files = [f"tests/{folder}/test_{name}.py" for folder, name in (each.split("/") for each in names)]
    calls = [[file for file in files if (ROOT / file).exists()]]
    package, name = module.split("/")
    if package == "methods" and not name.startswith("_"):
        which = " or ".join(f"[{each}]" for each in REGISTERED.get(name, (name,)))
        calls.append([CONTRACT, "-k", f"({which}) and not compiled"])
    return calls


class Failures:
    """A pytest plug-in that writes down which tests fail."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: object) -> None:
        if getattr(report, "failed", False):
            with self.path.open("a") as file:
                file.write(f"{getattr(report, 'nodeid', '')}\n")


class Slot:
    """A copy of the sources in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.failures = folder, folder / "failures"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in ("src", "tests", "tools", "benchmarks"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "docs", "results"):
            (folder / name).symlink_to(ROOT / name)
        self.pid = 0

    def start(self, module: str, mutant: Mutant | None, skipped: Sequence[str], number: int) -> None:
        """Fork a child that tests `mutant` up to the first failure, or the unchanged code to the end."""
        self.failures.unlink(missing_ok=True)
        self.module, self.mutant, self.since = module, mutant, time.monotonic()
        if mutant is not None:
            source = (ROOT / mutant.file).read_bytes()
            path = self.folder / mutant.file
            path.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
            # Python recognises compiled code by time and size, which two mutants may share.
            os.utime(path, (10**9 + number, 10**9 + number))
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._child([*(["-x"] if mutant else []), *(f"--deselect={each}" for each in skipped)])

    def _child(self, options: list[str]) -> None:
        code = 1
        try:
            os.setsid()
            log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder / "src")
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = (
                "1"  # plug-ins installed on this machine may not suit our tests
            )
            sys.path[:] = [str(self.folder / "src"), str(self.folder), *sys.path[1:]]
            import pytest

            for call in pytest_calls(self.module):
                arguments = ["-q", "-p", "no:cacheprovider", *options, *call]
                code = int(pytest.main(arguments, plugins=[Failures(self.failures)]))
                if code == pytest.ExitCode.NO_TESTS_COLLECTED:
                    code = 0
                if code and self.mutant:
                    break
        finally:
            os._exit(code)

    def poll(self, timeout: float) -> str | None:
        """What became of the child, or None while it runs; a child that takes too long is killed."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        late = time.monotonic() - self.since > timeout
        if not ended and not late:
            return None
        if not ended:
            self.stop()
        if self.mutant is not None:
            path = Path(self.mutant.file)
            shutil.copy2(ROOT / path, self.folder / path)
        self.pid = 0
        if not ended:
            return "timeout"
        return "killed" if status else "survived"

    def stop(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def failed(self) -> list[str]:
        return self.failures.read_text().splitlines() if self.failures.exists() else []


def try_all(
    slots: list[Slot],
    work: list[tuple[str, Mutant | None]],
    skipped: Sequence[str],
    timeout: float,
    until: float,
) -> Iterator[tuple[Slot, Outcome]]:
    """Try each module or mutant in the next free slot until the time is up."""
    waiting = list(enumerate(work))
    placeholder = Mutant("", 0, "", 0, 0, "", "", "")
    while waiting or any(slot.pid for slot in slots):
        for slot in slots:
            if slot.pid and (result := slot.poll(timeout)):
                failed = slot.failed()
                seconds = round(time.monotonic() - slot.since, 1)
                outcome = Outcome(slot.mutant or placeholder, result, failed[0] if failed else "", seconds)
                yield slot, outcome
            if not slot.pid and waiting:
                number, (module, mutant) = waiting.pop(0)
                slot.start(module, mutant, skipped, number)
        if time.monotonic() > until:
            for slot in slots:
                if slot.pid:
                    slot.stop()
                    slot.pid = 0
            return
        time.sleep(0.02)


def warm_up() -> None:
    """Import what every child needs, and let hypothesis find faults without shrinking them."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    os.environ |= {"CUDA_VISIBLE_DEVICES": ""}
    import hypothesis
    import torch

    others = ("numpy", "PIL.Image", "pydantic", "pytest", "scipy.optimize", "sklearn.cluster")
    for name in (*others, "sklearn.datasets", "sklearn.metrics"):
        importlib.import_module(name)
    torch.set_num_threads(1)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", derandomize=True, database=None, deadline=None, phases=phases
    )
    hypothesis.settings.load_profile("mutants")


def report(outcomes: list[Outcome], drawn: int) -> str:
    """The score and the survivors."""
    reasons = equivalents()
    counted = [each for each in outcomes if each.mutant.key not in reasons]
    survivors = [each.mutant for each in counted if each.result == "survived"]
    killed = len(counted) - len(survivors)
    lines = [
        f"{each.file}:{each.line} {each.function}\n  - {each.before}\n  + {each.after}"
        for each in sorted(survivors, key=lambda mutant: (mutant.file, mutant.line))
    ]
    late = sum(each.result == "timeout" for each in counted)
    share = 100 * killed / max(len(counted), 1)
    return "\n".join(
        [
            *lines,
            f"{len(outcomes)} of {drawn} mutants tried, {len(outcomes) - len(counted)} equivalent; "
            f"{killed} of {len(counted)} killed ({late} by the time limit): {share:.1f} %",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, required=True, help="one line of JSON per mutant; resumed if it exists"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this many seconds")
    parser.add_argument("--timeout", type=float, default=120, help="seconds allowed for a mutant")
    parser.add_argument("--only", default="", help="only mutants whose file has this in its path")
    parser.add_argument("--list", action="store_true", help="only write the mutants, without testing them")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds

    candidates = [each for each in every_mutant() if options.only in each.file]
    drawn = random.Random(options.seed).sample(candidates, min(options.number, len(candidates)))
    print(f"{len(drawn)} of {len(candidates)} mutants, seed {options.seed}")
    if options.list:
        options.out.write_text("".join(json.dumps(asdict(each)) + "\n" for each in drawn))
        return
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    known = {(each := _outcome(line)).mutant.key: each for line in lines}
    outcomes = {each.key: replace(known[each.key], mutant=each) for each in drawn if each.key in known}
    reasons = equivalents()
    left = [each for each in drawn if each.key not in outcomes and each.key not in reasons]

    with tempfile.TemporaryDirectory() as folder:
        if left:
            warm_up()
        jobs = min(options.jobs, len(left))
        slots = [Slot(Path(folder) / str(number)) for number in range(jobs)]
        modules: list[tuple[str, Mutant | None]] = [
            (module, None) for module in sorted({each.module for each in left})
        ]
        skipped: list[str] = []
        for slot, outcome in try_all(slots, modules, (), 10 * options.timeout, until):
            skipped += slot.failed()
            if outcome.result == "killed" and not slot.failed():
                print((slot.folder / "log").read_text()[-2000:])
                sys.exit(f"The tests of {slot.module} do not start.")
        if skipped:
            print("Left out because they fail without a mutant:", *sorted(set(skipped)))
        work: list[tuple[str, Mutant | None]] = [(each.module, each) for each in left]
        with options.out.open("a") as file:
            for _, outcome in try_all(slots, work, sorted(set(skipped)), options.timeout, until):
                outcomes[outcome.mutant.key] = outcome
                file.write(json.dumps(asdict(outcome)) + "\n")
                file.flush()
    print(report(list(outcomes.values()), len(drawn)))


def _outcome(line: str) -> Outcome:
    fields = json.loads(line)
    return Outcome(**{**fields, "mutant": Mutant(**fields["mutant"])})


if __name__ == "__main__":
    main()
