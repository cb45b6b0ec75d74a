# SPDX-License-Identifier: GPL-2.0
"""Execute a C function with formulas of Z3 instead of numbers.

clang compiles the C text without optimization, so that its IR has each operation of the text, on
memory.  `Machine` executes the IR.  At a branch whose condition is a formula it follows both
sides, each with the condition that leads there (its path).  When a function returns, paths with
equal results are merged: each number in memory becomes a choice between those of the paths.

Numbers of less than 64 bits are bit-vectors.  Numbers of 64 bits are either bit-vectors, or, with
`integers`, integers from 0 to 2^64 - 1: sums, differences and comparisons are exact, modulo 2^64,
and the result of any other operation is any number.  Nothing connects such an integer with the
bit-vector that it is extended from or truncated to.  All this only adds possible results: what
holds for all results of the formulas holds for those of the C text.

The subset of IR is what C on integers, structs and pointers needs.  Anything else is an error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import z3

TOP = 1 << 64
#: How often a block is executed on one path: 64 shifts make any number 0.
ROUNDS = 70
#: From how many executions on, the solver is asked whether a path is possible.
MANY = 8

#: A number (int), a formula, or an address: object and offset, or None. i1 is bool or a formula.
Value = Any
#: Object and offset: size in octets and value.
Memory = dict[tuple[str, int], tuple[int, Value]]

ATTRIBUTES = re.compile(
    r"\b(?:(?:dereferenceable|sret)\([^)]*\)|"
    r"(?:noundef|zeroext|signext|noalias|nonnull|inbounds|nuw|nsw|exact|align \d+)\b)"
)
#: Operations on bit-vectors.
BITS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": z3.LShR,
    "urem": z3.URem,
}
NUMBERS: dict[str, Any] = BITS | {"lshr": lambda a, b: a >> b, "urem": lambda a, b: a % b}
#: Comparisons of numbers, without the s or u for signed or unsigned.
ORDERS: dict[str, Any] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
UNSIGNED: dict[str, Any] = {"gt": z3.UGT, "ge": z3.UGE, "lt": z3.ULT, "le": z3.ULE}


class Untranslatable(Exception):
    """The IR has something that Machine does not know."""


@dataclass
class Function:
    """A function of the IR: the kinds and names of its parameters, and the lines of its blocks."""

    kind: str
    parameters: list[tuple[str, str]]
    blocks: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Where an execution is: the path that led there, and what it has computed."""

    path: tuple[Any, ...]
    memory: Memory
    values: dict[str, Value] = field(default_factory=dict)
    block: str = ""
    before: str = ""
    line: int = 0
    visits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A path through a function: what it returns."""

    path: tuple[Any, ...]
    value: Value
    memory: Memory


def parts_of(text: str) -> list[str]:
    """Split at commas outside parentheses, brackets and braces."""
    result, depth, last = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            result.append(text[last:n].strip())
            last = n + 1
    return [*result, text[last:].strip()] if text.strip() else []


def typed(text: str) -> tuple[str, str]:
    """Split "i64 noundef %0" into kind and value."""
    text = " ".join(ATTRIBUTES.sub(" ", text).split())
    match = re.match(r"(?:\[[^\]]*\]|%[\w.]+|i\d+|ptr|void)\**", text)
    if not match:
        raise Untranslatable(text)
    return match[0], text[match.end() :].strip()


def bits_of(kind: str) -> int:
    match = re.fullmatch(r"i(\d+)", kind)
    if not match:
        raise Untranslatable(f"{kind} is not a number")
    return int(match[1])


def is_formula(value: Value) -> bool:
    return isinstance(value, z3.ExprRef)


def negate(condition: Any) -> Any:
    if not is_formula(condition):
        return not condition
    return condition.arg(0) if z3.is_not(condition) else z3.Not(condition)


def simple(value: Any) -> Value:
    """A bit-vector or condition in a simple form: a number if it is one."""
    value = z3.simplify(value)
    if z3.is_true(value) or z3.is_false(value):
        return bool(z3.is_true(value))
    return value.as_long() if z3.is_bv_value(value) else value


def read(memory: Memory, thing: str, at: int, size: int) -> Value:
    cell = memory.get((thing, at))
    if cell and cell[0] == size:
        return cell[1]
    for start in range(at - 7, at + size):
        cell = memory.get((thing, start))
        if not cell or start + cell[0] <= at:
            continue
        if start <= at and at + size <= start + cell[0] and isinstance(cell[1], int):
            return cell[1] >> 8 * (at - start) & (1 << 8 * size) - 1  # of a memset
        break
    else:
        if size == 1:  # the rest of an octet of which bits are written: any
            return z3.FreshConst(z3.BitVecSort(8))
    raise Untranslatable(f"{thing}: {size} octets at {at} are not one number")


def write(memory: Memory, thing: str, at: int, size: int, value: Value) -> None:
    for start in range(at - 7, at + size):
        cell = memory.get((thing, start))
        if not cell or start + cell[0] <= at:
            continue
        if start < at or start + cell[0] > at + size:
            if not isinstance(cell[1], int):
                raise Untranslatable(f"{thing}: a part of the number at {start} is changed")
            for n in range(cell[0]):
                memory[thing, start + n] = (1, cell[1] >> 8 * n & 255)
        for n in range(max(start, at), min(start + cell[0], at + size)):
            memory.pop((thing, n), None)
    memory[thing, at] = (size, value)


class Machine:
    """Executes the IR of one file.

    The functions in `any_function` are any functions of their numbers; `applied` has their
    arguments and results.  `ranges` are facts about the formulas that the machine has made.
    """

    def __init__(
        self, text: str, integers: bool = False, any_function: frozenset[str] = frozenset()
    ) -> None:
        self.integers = integers
        self.any_function = any_function
        self.applied: list[tuple[str, list[Any], Any]] = []
        self.ranges: list[Any] = []
        self.abstract: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.structs: dict[str, list[str]] = {}
        self.globals: dict[str, tuple[str, str]] = {}
        self.functions: dict[str, Function] = {}
        self.objects = 0
        function = None
        for full in text.splitlines():
            line = re.sub(r", !\S+ !?\S+|, align \d+$| #\d+\b| ;.*", "", full).rstrip()
            if match := re.match(r"(%[\w.]+) = type \{ (.*) \}$", line):
                self.structs[match[1]] = parts_of(match[2])
            elif match := re.match(r"(@[\w.]+) = (?!external).*?(?:global|constant) (.*)$", line):
                self.globals[match[1]] = typed(match[2])
            elif match := re.match(r"define (.*?) ?@([\w.]+)\((.*)\)", line):
                kind = match[1].split()[-1]
                function = Function(kind, [typed(p) for p in parts_of(match[3])])
                self.functions[match[2]] = function
                function.blocks[block := "%" + str(len(function.parameters))] = []
            elif line == "}":
                function = None
            elif function and (match := re.match(r"(\d+|[\w.]+):", line)):
                function.blocks[block := "%" + match[1]] = []
            elif function and line.strip():
                function.blocks[block].append(line.strip())

    # --- types and constants ---------------------------------------------

    def layout(self, kind: str) -> tuple[int, int]:
        """Size and alignment in octets."""
        if kind.endswith("*") or kind == "ptr":
            return 8, 8
        if match := re.fullmatch(r"i(\d+)", kind):
            size = max(int(match[1]) // 8, 1)
            return size, size
        if match := re.fullmatch(r"\[(\d+) x (.*)\]", kind):
            size, align = self.layout(match[2])
            return int(match[1]) * size, align
        size = align = 0
        for member in self.structs[kind]:
            space, need = self.layout(member)
            size = -(-size // need) * need + space
            align = max(align, need)
        return -(-size // align) * align, align

    def offset(self, kind: str, member: int) -> tuple[int, str]:
        """Offset and kind of a member of a struct, or of an element."""
        if match := re.fullmatch(r"\[(\d+) x (.*)\]", kind):
            return member * self.layout(match[2])[0], match[2]
        at = 0
        for n, part in enumerate(self.structs[kind]):
            space, need = self.layout(part)
            at = -(-at // need) * need
            if n == member:
                return at, part
            at += space
        raise Untranslatable(f"{kind} has no member {member}")

    def value(self, kind: str, text: str, values: dict[str, Value]) -> Value:
        if text.startswith("%"):
            return values[text]
        if text.startswith("@"):
            return (text, 0)
        if text in ("null", "zeroinitializer"):
            return None if text == "null" else 0
        if text in ("true", "false"):
            return text == "true"
        if match := re.match(r"bitcast \((.*) to .*\)$", text):
            return self.value(*typed(match[1]), values)
        if re.fullmatch(r"-?\d+", text):
            return int(text) & (1 << bits_of(kind)) - 1
        raise Untranslatable(f"{kind} {text}")

    def initial(self, memory: Memory, name: str, kind: str, text: str, at: int = 0) -> None:
        """Write the initial value of a global variable."""
        if kind in self.structs and text.startswith("{"):
            for n, part in enumerate(parts_of(text.strip("{} "))):
                inner, value = typed(part)
                self.initial(memory, name, inner, value, at + self.offset(kind, n)[0])
        elif not kind.startswith("["):  # text, for messages
            write(memory, name, at, self.layout(kind)[0], self.value(kind, text, {}))

    # --- operations ------------------------------------------------------

    def sort(self, kind: str) -> Any:
        if kind == "i1":
            return z3.BoolSort()
        return z3.IntSort() if kind == "i64" and self.integers else z3.BitVecSort(bits_of(kind))

    def formula(self, value: Value, kind: str) -> Any:
        if is_formula(value):
            return value
        if kind == "i1":
            return z3.BoolVal(value)
        if kind == "i64" and self.integers:
            return z3.IntVal(value)
        return z3.BitVecVal(value, bits_of(kind))

    def any_number(self, kind: str, *of: Any) -> Any:
        """Any number of a kind; the same one each time for the same reason."""
        key = (kind, *(part.get_id() if is_formula(part) else part for part in of))
        if key not in self.abstract:
            number = z3.FreshConst(self.sort(kind))
            self.abstract[key] = (number, of)  # keeps the formulas, so that ids stay theirs
            self.limit(number)
        return self.abstract[key][0]

    def limit(self, number: Any) -> None:
        if z3.is_int(number):
            self.ranges += [number >= 0, number < TOP]

    def choose(self, condition: Any, a: Value, b: Value, kind: str) -> Value:
        if not is_formula(condition):
            return a if condition else b
        return z3.If(condition, self.formula(a, kind), self.formula(b, kind))

    def compute(self, operation: str, kind: str, a: Value, b: Value) -> Value:
        bits = bits_of(kind)
        if not is_formula(a) and not is_formula(b):
            if operation == "ashr":
                a = (a ^ 1 << bits - 1) - (1 << bits - 1)
                return a >> b & (1 << bits) - 1
            return int(NUMBERS[operation](a, b)) & (1 << bits) - 1
        if operation in ("add", "sub", "or", "xor", "shl", "lshr") and not is_formula(b) and not b:
            return a
        if operation == "and" and any(not is_formula(side) and not side for side in (a, b)):
            return 0
        if kind == "i1":
            x, y = self.formula(a, kind), self.formula(b, kind)
            logic = {"and": z3.And, "or": z3.Or, "xor": z3.Xor}
            return logic[operation](x, y)
        x, y = self.formula(a, kind), self.formula(b, kind)
        if not z3.is_int(x):
            return simple(x >> y if operation == "ashr" else BITS[operation](x, y))
        if operation == "add":
            return z3.If(x + y < TOP, x + y, x + y - TOP)
        if operation == "sub":
            return z3.If(x >= y, x - y, x - y + TOP)
        return self.any_number(kind, operation, x, y)

    def compare(self, how: str, kind: str, a: Value, b: Value) -> Any:
        if kind.endswith("*") or kind == "ptr":
            return (a == b) == (how == "eq")
        order = how.lstrip("su")
        if not is_formula(a) and not is_formula(b):
            if how.startswith("s"):
                half = 1 << bits_of(kind) - 1
                a, b = (a ^ half) - half, (b ^ half) - half
            return ORDERS[order](a, b)
        x, y = self.formula(a, kind), self.formula(b, kind)
        if how.startswith("s") and z3.is_int(x):
            raise Untranslatable("a signed comparison of 64 bits")
        if x.eq(y):
            return order in ("eq", "ge", "le")
        if z3.is_int(x):
            return ORDERS[order](x, y)
        return simple((UNSIGNED if how.startswith("u") else ORDERS)[order](x, y))

    def integer(self, value: Any) -> Any:
        """The integer of a bit-vector: a choice of numbers, or any number of its range."""
        if z3.is_bv_value(value):
            return z3.IntVal(value.as_long())
        if z3.is_app_of(value, z3.Z3_OP_ITE):
            condition, a, b = value.children()
            return z3.If(condition, self.integer(a), self.integer(b))
        number = self.any_number("i64", "zext", value)
        self.ranges.append(number < 1 << value.size())
        return number

    def convert(self, operation: str, rest: str, values: dict[str, Value]) -> Value:
        start, new = rest.rsplit(" to ", 1)
        old, text = typed(start)
        value = self.value(old, text, values)
        if operation == "bitcast":
            return value
        width = bits_of(new)
        if operation == "sext" and not is_formula(value):
            half = 1 << bits_of(old) - 1
            value = (value ^ half) - half
        if not is_formula(value):
            return value & (1 << width) - 1 if new != "i1" else bool(value & 1)
        if old == "i1":
            return self.choose(value, (1 << width) - 1 if operation == "sext" else 1, 0, new)
        if z3.is_int(value):
            return self.any_number(new, operation, value)
        if new == "i64" and self.integers:
            return self.integer(value)
        if new == "i1":
            return simple(z3.Extract(0, 0, value) == 1)
        if operation == "trunc":
            return simple(z3.Extract(width - 1, 0, value))
        extend = z3.ZeroExt if operation == "zext" else z3.SignExt
        return simple(extend(width - bits_of(old), value))

    def element(self, rest: str, values: dict[str, Value]) -> Value:
        """An address in an object (getelementptr)."""
        kind, *operands = parts_of(rest.removeprefix("inbounds "))
        (_, where), *indices = (typed(part) for part in operands)
        thing, at = self.value("ptr", where, values)
        for n, (index_kind, text) in enumerate(indices):
            index = self.value(index_kind, text, values)
            if is_formula(index):
                raise Untranslatable(f"an index that depends on numbers: {z3.simplify(index)}")
            half = 1 << bits_of(index_kind) - 1
            index = (index ^ half) - half
            if n:
                more, kind = self.offset(kind, index)
                at += more
            else:
                at += index * self.layout(kind)[0]
        return (thing, at)

    # --- execution -------------------------------------------------------

    def call(self, name: str, arguments: list[Value], start: State) -> list[Outcome]:
        """All paths through a function, those with equal results merged."""
        function = self.functions[name]
        values = dict(zip((p for _, p in function.parameters), arguments, strict=True))
        first = next(iter(function.blocks))
        own = self.objects
        waiting = [State(start.path, dict(start.memory), values, first)]
        outcomes: list[Outcome] = []
        while waiting:
            waiting += self.run(function, waiting.pop(), outcomes)
        for outcome in outcomes:  # its variables end
            for thing, at in list(outcome.memory):
                if thing[0].isdigit() and int(thing) >= own:
                    del outcome.memory[thing, at]
        return self.merged(outcomes, len(start.path), function.kind)

    def merged(self, outcomes: list[Outcome], common: int, kind: str) -> list[Outcome]:
        groups: dict[Any, list[Outcome]] = {}
        for outcome in outcomes:
            # Addresses and results that are known decide what happens next.
            known = frozenset(
                (where, size, value if isinstance(value, tuple) or value is None else "")
                for where, (size, value) in outcome.memory.items()
            )
            value = "a formula" if is_formula(outcome.value) else outcome.value
            groups.setdefault((known, value), []).append(outcome)
        result = []
        for group in groups.values():
            path, memory, value = group[0].path, dict(group[0].memory), group[0].value
            conditions = [z3.And(*outcome.path[common:]) for outcome in group]
            for condition, outcome in zip(conditions[1:], group[1:], strict=True):
                if is_formula(value):
                    value = self.choose(condition, outcome.value, value, kind)
                for where, (size, other) in outcome.memory.items():
                    mine = memory[where][1]
                    if is_formula(other) and is_formula(mine):
                        equal = other.eq(mine)
                    else:
                        equal = not is_formula(other) and not is_formula(mine) and other == mine
                    if equal:
                        continue
                    choice = self.choose(condition, other, mine, f"i{8 * size}")
                    memory[where] = (size, choice)
            if len(group) > 1:
                path = path[:common]
                if len(groups) > 1:
                    path = (*path, z3.simplify(z3.Or(*conditions)))
            result.append(Outcome(path, value, memory))
        return result

    def run(self, function: Function, state: State, outcomes: list[Outcome]) -> Iterator[State]:
        """Execute a block; the states that follow."""
        lines = function.blocks[state.block]
        for n in range(state.line, len(lines)):
            line = lines[n]
            if line.startswith("br "):
                yield from self.branch(state, line)
            elif line == "ret void":
                outcomes.append(Outcome(state.path, None, state.memory))
            elif line.startswith("ret "):
                kind, text = typed(line[4:])
                value = self.value(kind, text, state.values)
                outcomes.append(Outcome(state.path, value, state.memory))
            elif match := re.match(r"(?:(%\S+) = )?(?:tail )?call (.*)$", line):
                for outcome in self.invoke(match[2], state):
                    values = dict(state.values)
                    if match[1]:
                        values[match[1]] = outcome.value
                    yield replace(
                        state, path=outcome.path, memory=outcome.memory, values=values, line=n + 1
                    )
                return
            else:
                self.step(line, state)

    def branch(self, state: State, line: str) -> Iterator[State]:
        if match := re.match(r"br label (\S+)$", line):
            targets = [(match[1], True)]
        elif match := re.match(r"br i1 (\S+), label (\S+), label (\S+)$", line):
            condition = self.value("i1", match[1], state.values)
            if is_formula(condition):
                condition = self.decided(condition, state)
            targets = [(match[2], condition), (match[3], negate(condition))]
        else:
            raise Untranslatable(line)
        visits = state.visits | {state.block: state.visits.get(state.block, 0) + 1}
        if visits[state.block] > ROUNDS:
            raise Untranslatable("a loop without an end")
        targets = [(block, condition) for block, condition in targets if condition is not False]
        for block, condition in targets:
            path = state.path if condition is True else (*state.path, condition)
            memory, values = state.memory, state.values
            if len(targets) > 1:
                memory, values = dict(memory), dict(values)
            yield State(path, memory, values, block, state.block, 0, visits)

    def decided(self, condition: Any, state: State) -> Any:
        """A condition, or its value if the path decides it."""
        known = {formula.get_id() for formula in state.path}
        if condition.get_id() in known or negate(condition).get_id() in known:
            return condition.get_id() in known
        if state.visits.get(state.block, 0) >= MANY:
            for value in (False, True):
                solver = z3.Solver()
                solver.add(*self.ranges, *state.path, condition == value)
                if solver.check() == z3.unsat:
                    return not value
        return condition

    def step(self, line: str, state: State) -> None:
        """Execute a line that neither calls nor branches."""
        values, memory = state.values, state.memory
        if match := re.match(r"store (.*)$", line):
            (kind, text), (_, where) = (typed(part) for part in parts_of(match[1]))
            thing, at = self.value("ptr", where, values)
            write(memory, thing, at, self.layout(kind)[0], self.value(kind, text, values))
            return
        match = re.match(r"(%\S+) = (\w+) (.*)$", line)
        if not match:
            raise Untranslatable(line)
        target, operation, rest = match.groups()
        result: Value
        if operation == "alloca":
            result = (str(self.objects), 0)
            self.objects += 1
        elif operation == "load":
            kind, (_, where) = parts_of(rest)[0], typed(parts_of(rest)[1])
            thing, at = self.value("ptr", where, values)
            result = read(memory, thing, at, self.layout(kind)[0])
        elif operation == "getelementptr":
            result = self.element(rest, values)
        elif operation == "phi":
            kind, text = typed(rest)
            for part in parts_of(text):
                given, before = parts_of(part.strip("[] "))
                if before == state.before:
                    result = self.value(kind, given, values)
        elif operation == "icmp":
            how, rest = rest.split(" ", 1)
            (kind, a), b = typed(parts_of(rest)[0]), parts_of(rest)[1]
            result = self.compare(
                how, kind, self.value(kind, a, values), self.value(kind, b, values)
            )
        elif operation == "select":
            parts = [typed(part) for part in parts_of(rest)]
            c, a, b = (self.value(kind, text, values) for kind, text in parts)
            result = self.choose(c, a, b, parts[1][0])
        elif operation in ("zext", "sext", "trunc", "bitcast"):
            result = self.convert(operation, rest, values)
        else:
            (kind, a), b = typed(parts_of(rest)[0]), parts_of(rest)[1]
            result = self.compute(
                operation, kind, self.value(kind, a, values), self.value(kind, b, values)
            )
        values[target] = result

    def invoke(self, rest: str, state: State) -> list[Outcome]:
        match = re.search(r"@([\w.]+)\((.*)\)$", rest)
        if not match:
            raise Untranslatable(rest)
        name, memory = match[1], state.memory
        arguments = [self.value(*typed(part), state.values) for part in parts_of(match[2])]
        if name.startswith("llvm.memcpy"):
            (thing, at), (origin, start), size, _ = arguments
            for n in range(size):
                if cell := memory.get((origin, start + n)):
                    write(memory, thing, at + n, *cell)
            return [Outcome(state.path, None, memory)]
        if name.startswith("llvm.memset"):
            (thing, at), octet, size, _ = arguments
            for n in range(0, size, 8):
                count = min(8, size - n)
                write(memory, thing, at + n, count, octet * ((1 << 8 * count) // 255))
            return [Outcome(state.path, None, memory)]
        if name not in self.any_function:
            return self.call(name, arguments, state)
        function = self.functions[name]
        kinds = [kind for kind, _ in function.parameters]
        terms = [self.formula(a, kind) for a, kind in zip(arguments, kinds, strict=True)]
        sorts = [self.sort(kind) for kind in (*kinds, function.kind)]
        result = z3.Function(name, *sorts)(*terms)
        self.limit(result)
        self.applied.append((name, terms, result))
        return [Outcome(state.path, result, memory)]

    def execute(self, name: str, inputs: list[Value]) -> list[tuple[tuple[Any, ...], list[Value]]]:
        """Each path through the C function NAME(const u64 *in, u64 *out), with what it writes."""
        memory: Memory = {}
        for n, value in enumerate(inputs):
            memory["in", 8 * n] = (8, value)
            if is_formula(value):
                self.limit(value)
        for variable, (kind, initial) in self.globals.items():
            self.initial(memory, variable, kind, initial)
        outcomes = self.call(name, [("in", 0), ("out", 0)], State((), memory))
        return [
            (
                outcome.path,
                [
                    value
                    for (thing, _), (_, value) in sorted(outcome.memory.items(), key=lambda c: c[0])
                    if thing == "out"
                ],
            )
            for outcome in outcomes
        ]


def compile_source(source: Path, include: Path) -> str:
    """The IR of a C file."""
    return subprocess.run(
        ["clang", "-std=gnu11", "-O0", f"-I{include}", "-S", "-emit-llvm", "-o", "-", source],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
