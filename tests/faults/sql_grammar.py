"""Statements by grammar, typed as a person means them: most are accepted, but now and then an operand does not fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from headrace.sql import parse_script

DECLARATIONS = """
CREATE STREAM r (t TIMESTAMP, i BIGINT, j BIGINT, x DOUBLE, y DOUBLE, s STRING, u STRING, b BOOLEAN, d DECIMAL(10, 2),
                 a ADDRESS, `odd name` BIGINT) EVENT TIME t;
CREATE TABLE k (s STRING, n BIGINT, w DOUBLE);
"""
CATALOG = parse_script(DECLARATIONS).catalog

KINDS = ("whole", "real", "exact", "text", "condition", "time", "address")
NUMBERS = ("whole", "real", "exact")
COLUMNS = {
    "whole": ["i", "j", "r.i", "I", "`odd name`"],
    "real": ["x", "y", "`x`", "R.y"],
    "exact": ["d"],
    "text": ["s", "u", "r.s"],
    "condition": ["b", "TRUE", "FALSE"],
    "time": ["t"],
    "address": ["a"],
}
CONSTANTS = {
    "whole": ["0", "1", "-1", "2", "7", "60", "9223372036854775807", "-9223372036854775808", "00012"],
    "real": ["0.0", "0.5", "-1.5", "1e300", "1e-300", ".25", "3.", "1E5"],
    "exact": ["DECIMAL '0.10'", "CAST('12.30' AS DECIMAL(10, 2))", "DECIMAL '-99999999.99'"],
    "text": ["'a'", "''", "'it''s'", "'%'", "'a_b'", "'back\\\\slash'", "'\u65e5\u672c'", "'2020-01-01'"],
    "condition": ["TRUE", "FALSE", "NULL IS NULL"],
    "time": ["TIMESTAMP '1970-01-01 00:00:01'", "TIMESTAMP '2026-01-31 12:00:00.000001'"],
    "address": ["ADDRESS '10.0.0.1'", "ADDRESS '::1'", "ADDRESS '255.255.255.255'"],
}
# A capital is an operand of that kind: W whole, R real, E exact, N any number, T text, C condition, M time, A address;
# V and the other V are two operands of one kind.
FORMS = {
    "whole": """W + W; W - W; W * W; W DIV W; W % W; - W; abs(W); sign(W); floor(R); ceil(N); length(T); instr(T, T);
        nullif(W, W); greatest(W, W, W); coalesce(W, W); if(C, W, W); CASE WHEN C THEN W ELSE W END; CASE W WHEN
        W THEN W END; unix_seconds(M); unix_micros(M); CAST(T AS BIGINT); CAST(R AS INT); CAST(C AS BIGINT); (W);
        mod(W, W); nvl(W, W); (((W)))""",
    "real": """N / N; R + N; R - N; R * N; R % R; - R; abs(R); sqrt(N); ln(N); exp(R); power(N, N); round(R, 2); CAST(N
        AS DOUBLE); coalesce(R, W); CASE WHEN C THEN R END; least(R, W); log2(N); log10(N); CAST(T AS DOUBLE);
        (R)""",
    "exact": "E + E; E - E; E * E; CAST(N AS DECIMAL(12, 3)); abs(E); round(E, 1); - E; E + W; (E)",
    "text": """T || T; concat(T, T, T); lower(T); upper(T); trim(T); substring(T, W); substring(T, W, W); left(T, W);
        right(T, 2); replace(T, T, T); CAST(W AS STRING); coalesce(T, T); CASE WHEN C THEN T ELSE T END; CAST(A
        AS STRING); nullif(T, T); (T)""",
    "condition": """V = V; V <> V; V < V; V <= V; V > V; V >= V; V IS NULL; V IS NOT NULL; C AND C; C OR C; NOT C;
        C IS TRUE; C IS NOT FALSE; W BETWEEN W AND W; N NOT BETWEEN N AND N; V IN (V, V); V NOT IN (V, V, V);
        T LIKE 'a%'; T NOT LIKE '%!_b' ESCAPE '!'; starts_with(T, T); contains(T, T); ends_with(T, T);
        ip_in(A, '10.0.0.0/8');
        (C); A = '10.0.0.1'; M > '2020-01-01'; N < N; NOT (C OR C); C AND C AND C; coalesce(C, C); if(C, C, C)""",
    "time": "coalesce(M, M); greatest(M, M); if(C, M, M); (M)",
    "address": "ip_prefix(A, 24); coalesce(A, A); CASE WHEN C THEN A END; (A)",
}
LETTERS = {"W": "whole", "R": "real", "E": "exact", "T": "text", "C": "condition", "M": "time", "A": "address"}
AGGREGATES = {
    "whole": """count(*); count(V); sum(W); min(W); max(W); approx_count_distinct(V); count(DISTINCT V);
        sum(DISTINCT W); approx_count_distinct(V, 0.01); max_by(W, V); min_by(W, N); approx_distinct(V)""",
    "real": """avg(N); mean(N); sum(R); min(R); max(R); var_pop(N); var_samp(N); stddev(N); stddev_pop(N); median(N);
        percentile(N, 0.9); percentile(N, 1); percentile_exact(N, 0.25); percentile(DISTINCT N, 0.5);
        percentile_approx(N, 0.5); percentile_approx(N, 0.95, 1000); approx_percentile(N, 0.1, 10000);
        approx_median(N); percentile_relative(N, 0.5); avg(DISTINCT N); max_by(R, M)""",
    "exact": "sum(E); min(E); max(E); sum(DISTINCT E)",
    "text": "min(T); max(T); max_by(T, N); min_by(T, V)",
    "condition": "bool_and(C); bool_or(C); every(C); min(C)",
    "time": "min(M); max(M)",
    "address": "min(A); max(A); max_by(A, W)",
    "other": "heavy_hitters(V, 0.3); heavy_hitters(V, W, 0.2); top_k(V, 3); quantiles(N, 4); quantile_sketch(N)"
    "; distinct_sketch(V); relative_sketch(N)",
}
DURATIONS = ["'2 s'", "'5 s'", "'3 seconds'", "7", "'1 min'", "'10 s'", "INTERVAL '4' SECOND", "'0.5 s'"]
STREAM_WINDOWS = [
    "[RANGE {0}]",
    "[RANGE {0} SLIDE {1}]",
    "[RANGE {0} SLIDE {1} OFFSET {2}]",
    "[SLICES {0}, {1}]",
    "[RANGE 5 SLIDE 2]",
]
GROUP_WINDOWS = ["window(t, {0})", "window(t, {0}, {1})", "window(t, {0}, {1}, {2})", "t/5 AS tb"]
JOINS = ["JOIN k ON r.s = k.s", "LEFT JOIN k ON k.s = u", ", k", "JOIN k AS other ON other.s = r.u"]
JUNK = ["NULL", "''", "*", "b", "count(*)", "now()", "sum(", "1e999", "s.t", "window_start", "d", "array(1)", "t"]


def split_forms(table: Mapping[str, str]) -> dict[str, list[str]]:
    return {kind: [" ".join(form.split()) for form in text.split(";")] for kind, text in table.items()}


FORM_LISTS = split_forms(FORMS)
AGGREGATE_LISTS = split_forms(AGGREGATES)


class Grammar:
    """Draws statements. A share `broken` of the operands is anything at all."""

    def __init__(self, rng: random.Random, broken: float = 0.005) -> None:
        self.rng = rng
        self.broken = broken

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    # Expressions

    def fill(self, form: str, operand: Callable[[str], str]) -> str:
        """The form with an operand for each letter that stands alone."""
        same = self.rng.choice(KINDS)
        words = []
        for word in split_words(form):
            if word == "V":
                words.append(operand(same))
            elif word == "N":
                words.append(operand(self.rng.choice(NUMBERS)))
            else:
                words.append(operand(LETTERS[word]) if word in LETTERS else word)
        return "".join(words)

    def of_row(self, kind: str, depth: int = 2) -> str:
        """An expression of one row."""
        if self.rng.random() < self.broken:
            return self.rng.choice(JUNK)
        if depth == 0 or self.chance(3):
            return self.rng.choice((COLUMNS if self.rng.random() < 0.7 else CONSTANTS)[kind])
        text = self.fill(self.rng.choice(FORM_LISTS[kind]), lambda inner: self.of_row(inner, depth - 1))
        return f"({text})"

    def aggregate(self, kind: str) -> str:
        text = self.fill(self.rng.choice(AGGREGATE_LISTS[kind]), lambda inner: self.of_row(inner, 1))
        return f"{text} FILTER (WHERE {self.of_row('condition')})" if self.chance(5) else text

    def of_window(self, kind: str, groups: Sequence[tuple[str, str]], depth: int = 1) -> str:
        """An expression of a window and group."""
        known = [text for text, group_kind in groups if group_kind == kind]
        if kind == "time" and self.chance(2):
            return self.rng.choice(["window_start", "window_end"])
        if known and self.chance(3):
            return self.rng.choice(known)
        if depth == 0 or self.chance(2):
            return self.aggregate(kind)
        form = self.rng.choice(FORM_LISTS[kind])
        return f"({self.fill(form, lambda inner: self.of_window(inner, groups, depth - 1))})"

    # Clauses

    def window(self) -> tuple[str, list[str]]:
        """What stands behind the stream's name, and what in GROUP BY."""
        lengths = [self.rng.choice(DURATIONS) for _ in range(3)]
        if self.chance(3):
            return "", [self.rng.choice(GROUP_WINDOWS).format(*lengths)]
        return self.rng.choice(STREAM_WINDOWS).format(*lengths), []

    def select(self) -> str:
        groups = [(self.of_row(kind, 1), kind) for kind in self.rng.choices(KINDS, k=self.rng.choice([0, 0, 1, 1, 2]))]
        kinds = self.rng.choices((*KINDS, "whole", "real", "other"), k=self.rng.randrange(1, 4))
        items = [self.aggregate(kind) if kind == "other" else self.of_window(kind, groups) for kind in kinds]
        items = [f"{item} AS c{place}" if self.rng.random() < 0.7 else item for place, item in enumerate(items)]
        items += [text for text, _ in groups if self.chance(2)]
        behind, in_groups = self.window()
        parts = [f"SELECT {', '.join(items)} FROM r {behind}"]
        parts += [self.rng.choice(JOINS)] if self.chance(8) else []
        parts += [f"WHERE {self.of_row('condition', 3)}"] if self.chance(2) else []
        grouped = [*in_groups, *(text for text, _ in groups)]
        parts += [f"GROUP BY {', '.join(grouped)}"] if grouped else []
        parts += [f"HAVING {self.of_window('condition', groups)}"] if self.chance(4) else []
        if self.chance(4):
            ordered = self.of_window(self.rng.choice(KINDS), groups)
            parts += [f"ORDER BY {ordered}{self.rng.choice(['', ' DESC', ' ASC NULLS LAST', ' NULLS FIRST'])}"]
        parts += [f"LIMIT {self.rng.choice([1, 3, 1000000])}"] if self.chance(6) else []
        return self.dressed(" ".join(parts))

    def dressed(self, text: str) -> str:
        """The same in another layout."""
        how = self.rng.randrange(8)
        if how == 0:
            return text.replace(" ", "\n\t")
        if how == 1:
            return f"/* {text[:9].replace('*/', '')} */ {text} -- end"
        return f"CREATE QUERY q AS {text}" if how == 2 else text


def split_words(form: str) -> list[str]:
    """Words and what is between them; what stands in quotes is not looked into."""
    words, word, is_quoted = [], "", False
    for character in form:
        if character == "'":
            is_quoted = not is_quoted
        if (character.isalnum() or character == "_") and not is_quoted:
            word += character
            continue
        words += [word, character]
        word = ""
    return [*words, word]


def grammatical(rng: random.Random) -> str:
    return Grammar(rng).select()
