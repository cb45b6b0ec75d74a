# SPDX-License-Identifier: GPL-2.0
"""Prove the lemma of lemma.h for all numbers, with Z3.

    python -m tests.unit.prove_lemma STEP INCLUDE [WORD]...

The steps, with the headers in the directory INCLUDE:

codes               what the lemma needs of codes holds for each rate and each code
rotation            step 1 of docs/proof.md, for all numbers
lemma [CASE]...     no numbers exist for which the lemma applies and a claim is false
same STATES         the formulas allow the results that the compiled program lemma_states printed
                    to the file STATES

A case is rows of memory (0, 1), type of the packet (1 to 5) and retransmitted (0, 1), such as 021;
by default all of them, which are all packets and links that the lemma is about.  In the lemma tags
are masked by any function of tag and hash, and codes are any for which `codes` holds.

Exit status: 0 proved; 1 refuted, with the numbers, or undecided.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import z3

from tests.unit.formulas import Machine, compile_source, is_formula

HERE = Path(__file__).resolve().parent
MASKS = ("slbn_mask_tag", "slbn_unmask_tag")
CODES = ("slbn_decode", "slbn_encode_down", "slbn_encode_up")
#: slbn_decode(SLBN_CODE_MAX)
RATE_MAX = 2047 << 31
CASES = ["".join(case) for case in itertools.product("01", "12345", "01")]
#: For one case; the slowest needs a hundredth, on an idle CPU [s].
LIMIT_S = 1500


def proved(what: str, facts: list[Any], numbers: dict[str, Any]) -> bool:
    """Whether the facts contradict each other, so that no numbers exist for which they hold."""
    solver = z3.Solver()
    solver.set("timeout", LIMIT_S * 1000)
    solver.add(*facts)
    start = time.process_time()
    answer = solver.check()
    word = {"unsat": "proved", "sat": "refuted"}.get(str(answer), "undecided")
    print(f"{what}: {word} in {time.process_time() - start:.1f} s of CPU time", flush=True)
    if answer == z3.sat:
        model = solver.model()
        shown = {name: number for name, number in numbers.items() if is_formula(number)}
        print(*(f"{name}={model.eval(number)}" for name, number in shown.items()))
    return bool(answer == z3.unsat)


def prove_codes(text: str) -> bool:
    rate = z3.BitVec("rate", 64)
    machine = Machine(text)
    paths = machine.execute("lemma_codes", [rate])
    wrong = [
        z3.And(*path, z3.Or(*(machine.formula(value, "i64") == 0 for value in results)))
        for path, results in paths
    ]
    return proved("codes", [z3.Or(*wrong)], {"rate": rate})


def prove_rotation(text: str) -> bool:
    numbers = [z3.Int(f"in{n}") for n in range(9)]
    machine = Machine(text, integers=True)
    wrong = []
    for path, (occurs, *claims) in machine.execute("lemma_rotation", numbers):
        false = z3.Or(*(machine.formula(value, "i64") == 0 for value in claims))
        wrong.append(z3.And(*path, machine.formula(occurs, "i64") != 0, false))
    facts = [*machine.ranges, z3.Or(*wrong)]
    return proved("rotation", facts, {str(number): number for number in numbers})


def facts_of_codes(machine: Machine) -> list[Any]:
    """What prove_codes() proves, of the codes that occur, and the rates of two codes."""
    decode = z3.Function("slbn_decode", z3.BitVecSort(16), z3.IntSort())
    result = [decode(z3.BitVecVal(code, 16)) == rate for code, rate in ((0, 0), (0xFFFF, RATE_MAX))]
    for name, arguments, value in machine.applied:
        if name in CODES:
            rate = value if name == "slbn_decode" else decode(value)
            result += [rate >= 0, rate <= RATE_MAX]
        if name == "slbn_encode_down":
            result.append(rate <= arguments[0])
        elif name == "slbn_encode_up":
            result.append(z3.Or(arguments[0] > RATE_MAX, rate >= arguments[0]))
    return result


def layout_of(text: str) -> list[int]:
    """How many numbers the lemma has, and the places of those of a case."""
    ((_, layout),) = Machine(text).execute("lemma_layout", [])
    return list(map(int, layout))


def lemma_of(text: str, case: str) -> tuple[Machine, list[Any], list[Any]]:
    """The lemma as formulas: the machine, the numbers, and the paths with their results."""
    count, *fixed = layout_of(text)
    machine = Machine(text, integers=True, any_function=frozenset(MASKS + CODES))
    numbers: list[Any] = [z3.Int(f"in{n}") for n in range(count)]
    for at, digit in zip(fixed, case, strict=True):
        numbers[at] = int(digit)
    return machine, numbers, machine.execute("lemma_results", numbers)


def prove_case(text: str, case: str) -> bool:
    start = time.process_time()
    machine, numbers, paths = lemma_of(text, case)
    print(f"case {case}: {len(paths)} paths in {time.process_time() - start:.1f} s of CPU time")
    false = [
        z3.And(*path, *(machine.formula(value, "i64") != 0 for value in results[:2]))
        for path, results in paths
    ]
    facts = [*machine.ranges, *facts_of_codes(machine), z3.Or(*false)]
    return proved(f"case {case}", facts, {f"in{n}": number for n, number in enumerate(numbers)})


def check_same(text: str, states: list[list[int]]) -> bool:
    """Execute the functions with numbers, then compare formulas, all with the compiled results."""
    count, *fixed = layout_of(text)
    cases: dict[str, list[list[int]]] = {}
    wrong = 0
    for state in states:
        paths = Machine(text).execute("lemma_results", state[:count])
        if [results for _, results in paths] != [state[count:]]:
            wrong += 1
            print("executed:", state, paths)
        cases.setdefault("".join(str(state[at]) for at in fixed), []).append(state)
    for case, chosen in sorted(cases.items()):
        machine, numbers, paths = lemma_of(text, case)
        facts = [*machine.ranges, *facts_of_codes(machine)]
        for state in chosen:
            equal = [
                z3.And(
                    *path,
                    *(
                        machine.formula(mine, "i64") == number
                        for mine, number in zip(results, state[count:], strict=True)
                    ),
                )
                for path, results in paths
            ]
            solver = z3.Solver()
            solver.add(*facts, z3.Or(*equal))
            solver.add(*(n == s for n, s in zip(numbers, state, strict=False) if is_formula(n)))
            if solver.check() != z3.sat:
                wrong += 1
                print("not allowed:", case, state)
        print(f"case {case}: {len(chosen)} states", flush=True)
    print(f"{len(states)} states of {len(cases)} cases, {wrong} differ")
    return not wrong and len(cases) == len(CASES)


def main() -> int:
    step, include, *words = sys.argv[1:]
    text = compile_source(HERE / "lemma_states.c", Path(include))
    if step == "codes":
        return not prove_codes(text)
    if step == "rotation":
        return not prove_rotation(text)
    if step == "lemma":
        results = [prove_case(text, case) for case in words or CASES]
        return not all(results)
    lines = Path(words[0]).read_text().splitlines()
    return not check_same(text, [[int(word) for word in line.split()] for line in lines])


if __name__ == "__main__":
    sys.exit(main())
