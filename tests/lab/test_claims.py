# SPDX-License-Identifier: GPL-2.0
"""Registered claims: files with mistakes, and the judgement of measurements."""

import math
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from fairlab.figures import registry, verdict
from fairlab.figures.gallery import described
from fairlab.figures.studies import ALL
from fairlab.figures.verdict import CONSISTENT, INCONCLUSIVE, INCONSISTENT, NOT_TESTABLE
from fairlab.model.errors import UsageError

from tests.lab.labtools import TOP

COINS = (TOP / "tests" / "lab" / "coins.toml").read_text()


def read(place: Path, text: str) -> registry.Source:
    (place / "claims.toml").write_text(text)
    return registry.read(place / "claims.toml")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('class = "number"', 'class = "hope"', 14, "class 'hope' is not one of number, formula"),
        ('unit = "%"', "", 25, "unit is missing"),
        ('unit = "%"', 'unit = ""', 16, "unit = '' is not valid"),
        ('tolerance.reason = "chance: of 1000 tosses"', "", 18, "the tolerance has no reason"),
        ('"chance: of 1000 tosses"', '"no number"', 18, "reason must be 'definition|published|"),
        ('"chance: of 1000 tosses"', '"chance: "', 18, "reason must be 'definition|published|"),
        ("tolerance.absolute = 5", 'tolerance.most = "5"', 18, "most = '5' is not valid"),
        ("tolerance.absolute = 5", "tolerance.most = 5", 18, "a two-sided tolerance has least"),
        ("tolerance.absolute = 5", "tolerance.width = 5", 18, "width = 5 is not valid"),
        ("two_sided = true", "two_sided = false", 18, "is one positive number, two-sided"),
        ("value = 50\n", "", 14, "class number needs a value"),
        ('statistic = "mean"', 'statistic = "best"', 20, "statistic 'best' is not one of mean"),
        ("seeds = 3", "seeds = 0", 23, "a computed value has 0 seeds, any other one or more"),
        ('algorithm = "coin"', 'algorithm = "card"', 21, "algorithm 'card' is not the source's"),
        ('algorithm = "coin"', 'algorithm = "die"', 21, "a claim about a stand-in is not testable"),
        ('cases = ["fair"]', "cases = 3", 22, "cases = 3 is not valid"),
        ('place = "page 1"', 'place = "1"\npage = "1"', 14, "'page' is not known"),
        ('id = "heads"\n', "", 25, "id is missing"),
        ('study = "bent-coin"', 'study = "fair-coin"', 46, "'fair-coin/heads' is not unique"),
        ("[source]", "[sauce]", 4, "no table 'sauce' is known"),
        ('[[group.claim]]\nid = "heads"', "[[group.claim]]\nid =", 26, "Invalid value"),
        ('state = "missing"', 'state = "lost"', 70, "state 'lost' is not one of reproduced"),
        ('commit = "0123abc"\n', "", 76, "commit is missing"),
        ('commit = "0123abc"', 'at = "0123abc"\ncommit = "1"', 78, "'at' is not known"),
        ("fair-coin/tails", "fair-coin/heads", 77, "the claim 'fair-coin/heads' is above"),
        ('commit = "0123abc"', 'commit = "1"\nnow = "edge"', 79, "no claim 'edge' is above"),
        ('claims = "bent-coin/heads"', 'claims = "edge"', 87, "no claim 'edge' is above"),
    ],
)
def test_mistakes_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert len(read(tmp_path, COINS).claims) == 3
    with pytest.raises(UsageError) as caught:
        read(tmp_path, COINS.replace(old, new, 1))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'claims.toml'}:{line}: ")


def claim(statistic: str = "mean", least: float = 10, most: float = 20) -> registry.Claim:
    return registry.Claim(
        "s", "c", "text", "said", "page", "words", "%", least, most, "ours", statistic, "a",
        ("*",), 2, False, "0" * 64,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("statistic", "values", "expected"),
    [
        ("mean", (15, 15.2), CONSISTENT),
        ("mean", (14, 17), INCONCLUSIVE),  # 15.5 [-3.6, 34.6]
        ("mean", (15,), INCONCLUSIVE),
        ("mean", (30, 30.1), INCONSISTENT),
        ("mean", (21, 25), INCONCLUSIVE),
        ("mean", (21, 22, 21.5, 22), INCONSISTENT),
        ("geometric mean", (30, 30.1), INCONSISTENT),
        ("geometric mean", (10, 20), INCONCLUSIVE),
        ("each run", (15, 15.1), CONSISTENT),
        ("each run", (15, 21), INCONSISTENT),
        ("each run", (15, 19), INCONCLUSIVE),
        ("each run", (math.inf, math.inf), INCONSISTENT),
        ("mean", (math.inf, 15), INCONCLUSIVE),
        ("exact", (15,), CONSISTENT),
        ("exact", (21,), INCONSISTENT),
        ("mean", (), INCONCLUSIVE),
    ],
)
def test_judgement(statistic: str, values: tuple[float, ...], expected: str) -> None:
    assert verdict.judge(claim(statistic), values).verdict == expected


def test_infinite_values_keep_their_sign() -> None:
    """What the other never does is not what ours never does."""
    less = verdict.judge(claim(least=-math.inf, most=0), (-math.inf, -548.0))
    assert verdict.number(-0.0) == "0"
    assert verdict.in_words(less, "%") == "-∞ [-∞, never], -∞ to -548 %"
    assert less.verdict == INCONCLUSIVE and less.holds
    assert not verdict.judge(claim(most=math.inf), (-math.inf, math.inf)).holds


def test_interval_without_infinities_that_fit() -> None:
    least = claim(least=-math.inf, most=0)
    assert verdict.judge(least, (-math.inf, -540, -548)).verdict == CONSISTENT
    assert verdict.judge(least, (-math.inf, -1, -548)).verdict == INCONCLUSIVE
    assert verdict.judge(least, (math.inf, -540, -548)).verdict == INCONCLUSIVE
    (part,) = verdict.judge(least, (-math.inf, -540, -548)).parts
    assert part.values[0] == -math.inf and part.mean == -544


def test_fewer_seeds_than_registered_are_inconclusive() -> None:
    many = registry.Claim(**{**claim().__dict__, "seeds": 3})
    assert verdict.judge(many, (15, 15.1)).verdict == INCONCLUSIVE
    assert verdict.judge(many, (15, 15.1, 15)).verdict == CONSISTENT


def test_all_parts_have_to_agree() -> None:
    good, bad, open_ = (15, 15.1), (30, 30.1), (14, 17)
    judge = verdict.judge
    assert judge(claim(), {"a": good, "b": good}).verdict == CONSISTENT
    assert judge(claim(), {"a": good, "b": open_}).verdict == INCONCLUSIVE
    found = judge(claim(), {"a": open_, "b": bad, "c": good, "d": good})
    assert found.verdict == INCONSISTENT and found.worst and found.worst.name == "b"
    said = "b: 30.1 [29.4, 30.7], 30 to 30.1 (worst of 4 parts, 15.1 to 30.1) %"
    assert verdict.in_words(found, "%") == said


@pytest.mark.parametrize("statistic", ["mean", "each run"])
def test_the_worst_part_is_the_farthest_outside(statistic: str) -> None:
    """Not the first with the verdict; within the range, the one next to its end."""
    judge, parts = verdict.judge, {"a": (30, 30.1), "b": (41, 41.1), "c": (5, 5.1), "d": (15, 15.1)}
    found = judge(claim(statistic), parts)
    assert found.verdict == INCONSISTENT and found.worst and found.worst.name == "b"
    found = judge(claim(statistic), {name: parts[name] for name in "acd"})
    assert found.worst and found.worst.name == "a"
    found = judge(claim(statistic), {"a": (15, 15.1), "b": (19, 19.1), "c": (10.5, 10.51)})
    assert found.verdict == CONSISTENT and found.worst and found.worst.name == "c"
    # One of several runs is the farthest.
    found = judge(claim("each run"), {"a": (30, 30.1), "b": (15, 31)})
    assert found.worst and found.worst.name == "b"
    # An open end has no distance.
    found = judge(claim(least=-math.inf), {"a": (-math.inf, -math.inf), "b": (15, 15.1)})
    assert found.worst and found.worst.name == "b"


def test_stand_ins_are_not_testable_whatever_they_do() -> None:
    excused = registry.Claim(**{**claim().__dict__, "not_testable": "a stand-in"})
    assert verdict.judge(excused, (15, 15.1)).verdict == NOT_TESTABLE
    assert verdict.judge(excused, (30, 30.1)).verdict == NOT_TESTABLE


def test_an_explanation_corrects_why_a_claim_is_not_testable() -> None:
    """A claim's own fields have a hash, so that a text in them cannot be corrected."""
    excused = registry.Claim(**{**claim().__dict__, "not_testable": "of 10, 8 ended"})
    for why, shown in (("", "of 10, 8 ended"), ("of 10, 9 ended", "of 10, 9 ended")):
        found = registry.Claim(**{**excused.__dict__, "why": why})
        assert described(found, verdict.judge(found, (15, 15.1)))["why"] == shown


SIMILAR = """\
[each]
coins = [
  { coin = "bent", least = 85, text = "a {coin} coin has heads" },
  { coin = "fair", least = 45, seeds = 2 },
]

[[group]]
each = ["coins"]
study = "bent-coin"
quotation = "nearly always"
place = "page 2"
class = "words"
unit = "%"
two_sided = false
tolerance.least = "{least}"
tolerance.reason = "words: no number"
statistic = "each run"
algorithm = "coin"
cases = ["{coin}"]
seeds = 1

[[group.claim]]
id = "{coin}-heads"
text = "heads"

[[group.claim]]
each = []
id = "tails"
text = "tails"
tolerance.least = 1
tolerance.reason = "words: no number"
cases = ["bent"]

[[why]]
of = ["bent-coin/fair-heads"]
why = "The coin is new"
"""
HEAD = COINS.split("[[group]]")[0]


def test_similar_claims_are_written_once(tmp_path: Path) -> None:
    claims = read(tmp_path, HEAD + SIMILAR).claims
    assert [(one.id, one.cases, one.least, one.seeds, one.text, one.why) for one in claims] == [
        ("bent-heads", ("bent",), 85, 1, "heads", ""),
        ("fair-heads", ("fair",), 45, 2, "heads", "The coin is new"),
        ("tails", ("bent",), 1, 1, "tails", ""),
    ]
    plain = SIMILAR[SIMILAR.index("[[group]]") :].replace('each = ["coins"]\n', "")
    for blank, value in (("{coin}", "fair"), ('"{least}"', "45"), ("seeds = 1", "seeds = 2")):
        plain = plain.replace(blank, value)
    assert read(tmp_path, HEAD + plain).claims[0].sha256 == claims[1].sha256


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("least = 45,", "most = 45,", 12, "'most' is not known"),
        ("seeds = 2", 'seeds = "2"', 12, "seeds = '2' is not valid"),
        ("least = 45,", "", 30, "its tables of [each] have no 'least'"),
        ('each = ["coins"]', 'each = ["dice"]', 16, "each 'dice' is not one of coins"),
        ('each = ["coins"]', "each = 2", 16, "each '2' is not one of coins"),
        ('of = ["bent-coin/fair-heads"]', 'of = ["heads"]', 43, "no claim 'heads' is above"),
        ('id = "tails"', 'id = "tails"\nsource = "dice"', 1, "No such file"),
    ],
)
def test_mistakes_in_lists_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, HEAD + SIMILAR.replace(old, new, 1))
    assert message in str(caught.value)
    if "No such file" not in message:
        assert str(caught.value).startswith(f"{tmp_path / 'claims.toml'}:{line}: ")


# --- the project's claims -----------------------------------------------------------------------


def test_claims_are_of_studies_and_their_cases() -> None:
    studies = {study.name: study for study in ALL}
    for source in registry.sources():
        for one in source.claims:
            cases = [case.name for case in studies[one.study].cases(quick=False, seed=1)]
            for pattern in one.cases:
                assert any(fnmatchcase(case, pattern) for case in cases), (one.name, pattern)
            assert one.statistic == "exact" or one.cases, one.name
            assert one.seeds <= len(studies[one.study].seeds(quick=False)), one.name


def test_only_slbn_as_published_runs_for_its_claims() -> None:
    """A claim of the paper that another form judges is refused."""
    path = registry.OWN / "slbn.toml"
    assert "slbn" not in tomllib.loads(path.read_text())["source"]["algorithms"]
    sources = {source.name: source for source in registry.sources()}
    assert {claim.algorithm for claim in sources["slbn"].claims if "slbn" in claim.algorithm} <= {
        *("slbn-paper", "slbn-paper, pfifo", "slbn-paper, erica, rcp", "slbn-paper, bfyz"),
        *("slbn-paper, erica", "slbn-paper, rcp", "slbn-paper, bfyz, piqi-rcp, cobb"),
        "slbn-paper, bfyz, erica, rcp, piqi-rcp, cobb",
    }
    assert [source.name for source in sources.values() if source.ours] == ["fairpath"]


def test_an_explanation_does_not_change_the_hash(tmp_path: Path) -> None:
    def hashes(text: str) -> list[str]:
        return [claim.sha256 for claim in read(tmp_path, text).claims]

    assert hashes(COINS) == hashes(COINS.replace("The coin is <bent>", "chance"))
    assert hashes(COINS) == hashes(COINS.replace("a <flat> table", "a hand"))
    corrected = COINS.replace('place = "page 1"', 'place = "page 1"\ncorrection = "page 3"')
    assert hashes(COINS) == hashes(corrected)
    heads = read(tmp_path, corrected).claims[0]
    shown = described(heads, verdict.judge(heads, ()))["published"]
    assert shown == "as often as tails (page 1); correction: page 3"
    before, after = hashes(COINS), hashes(COINS.replace("least = 85", "least = 84"))
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
