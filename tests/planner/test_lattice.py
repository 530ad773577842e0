"""The lattice: covers is an order, a union covers its members, and the papers' relations hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.datasets import workload
from headrace.planner.demand import Leaf, Shape, demand, leaves_of, shapes_of
from headrace.planner.lattice import Node, union
from headrace.sql import parse_script

STREAM = "CREATE STREAM S (t TIMESTAMP, a ADDRESS, b BIGINT, c BIGINT, d DOUBLE) EVENT TIME t;\n"

select_lists = st.lists(
    st.sampled_from(["count(*)", "sum(b)", "min(c)", "avg(d)"]), min_size=1, max_size=2, unique=True
)
window_texts = st.builds(
    "[RANGE {} SLIDE {} OFFSET {}]".format, st.integers(1, 20), st.integers(1, 12), st.integers(0, 5)
)
atoms = st.builds("{} {} {}".format, st.sampled_from("bcd"), st.sampled_from(["<", ">", "="]), st.integers(0, 3))
wheres = st.one_of(st.just(""), atoms.map("WHERE {}".format), st.builds("WHERE {} AND {}".format, atoms, atoms))
group_lists = st.lists(
    st.sampled_from(["a", "b", "c", "ip_prefix(a, 24)", "ip_prefix(a, 8)", "b % 10"]), max_size=3, unique=True
)


def text(items: list[str], window: str, where: str, groups: list[str]) -> str:
    tail = f"GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join(items)} FROM S {window} {where} {tail};"


queries = st.builds(text, select_lists, window_texts, wheres, group_lists)


def leaves(script: str) -> tuple[Leaf, ...]:
    parsed = parse_script(STREAM + script)
    return leaves_of({named.name: demand(named.query) for named in parsed.queries})


def node(query: str) -> Node:
    (leaf,) = leaves(query)
    return leaf.node


def shapes(name: str, count: int, seed: int = 7) -> tuple[Shape, ...]:
    parsed = parse_script(workload(name, count, seed))
    return shapes_of(leaves_of({named.name: demand(named.query) for named in parsed.queries}))


@given(st.lists(queries, min_size=1, max_size=4))
def test_a_union_covers_its_members_and_itself(texts: list[str]) -> None:
    members = [node(query) for query in texts]
    united = union(members)
    assert all(united.covers(member) for member in members)
    assert united.covers(united)
    assert union([united, *members]) == united


@given(st.lists(queries, min_size=3, max_size=3))
def test_covers_is_transitive(texts: list[str]) -> None:
    one, two, three = (node(query) for query in texts)
    upper, middle = union([one, two, three]), union([one, two])
    assert upper.covers(middle)
    assert upper.covers(one)
    if one.covers(two) and two.covers(three):
        assert one.covers(three)


def test_finer_groups_cover_coarser_ones() -> None:
    fine = node("SELECT count(*) FROM S [RANGE 60] GROUP BY a, b")
    assert fine.covers(node("SELECT count(*) FROM S [RANGE 60] GROUP BY ip_prefix(a, 24)"))
    assert node("SELECT count(*) FROM S [RANGE 60] GROUP BY ip_prefix(a, 24)").covers(
        node("SELECT count(*) FROM S [RANGE 60] GROUP BY ip_prefix(a, 8)")
    )
    assert not node("SELECT count(*) FROM S [RANGE 60] GROUP BY ip_prefix(a, 8)").covers(fine)
    assert fine.covers(node("SELECT count(*) FROM S [RANGE 60] WHERE b > 5 GROUP BY a")), (
        "b is a function of the groups"
    )
    assert not fine.covers(node("SELECT count(*) FROM S [RANGE 60] WHERE c > 5 GROUP BY a"))


def test_boundaries_of_a_multiple_are_contained() -> None:
    minute = node("SELECT count(*) FROM S [RANGE '1 min']")
    assert minute.covers(node("SELECT count(*) FROM S [RANGE '10 min' SLIDE '5 min']"))
    assert not minute.covers(node("SELECT count(*) FROM S [RANGE '90 s' SLIDE '1 min']"))


def test_partials_are_shared_by_aggregates() -> None:
    both = node("SELECT avg(d) FROM S [RANGE 60]")
    assert both.covers(node("SELECT sum(d), count(d) FROM S [RANGE 60]"))
    assert not both.covers(node("SELECT count(*) FROM S [RANGE 60]"))


def test_a_filtered_node_does_not_cover_what_it_dropped() -> None:
    narrow = node("SELECT count(*) FROM S [RANGE 60] WHERE b > 5")
    assert not narrow.covers(node("SELECT count(*) FROM S [RANGE 60] WHERE b > 3"))
    assert not narrow.covers(node("SELECT count(*) FROM S [RANGE 60] WHERE b > 7")), "the cut at 7 is not kept apart"
    united = union([narrow, node("SELECT count(*) FROM S [RANGE 60] WHERE b > 7")])
    assert united.covers(node("SELECT count(*) FROM S [RANGE 60] WHERE b > 7"))


def test_queries_that_differ_in_window_or_aggregate_are_one_leaf() -> None:
    (leaf,) = leaves(
        "SELECT count(*) FROM S [RANGE 60] WHERE 5 < b; SELECT sum(c) FROM S [RANGE 90 SLIDE 30] WHERE b > 5;"
    )
    assert [ask.query for ask in leaf.asks] == ["q1", "q2"]
    assert len(leaf.node.partials) == 2


def test_low_sharing_queries_are_nine_shapes() -> None:
    """three indexes times three quantities, whatever the constants and windows."""
    found = shapes("otf-low", 256)
    assert len(found) == 9
    assert sum(len(leaf.asks) for shape in found for leaf in shape.leaves) == 256


def test_windows_alone_are_one_leaf_and_predicates_alone_one_node_per_shape() -> None:
    (windows,) = shapes("otf-windows", 64)
    assert len(windows.leaves) == 1
    assert all(len(shape.node.boundaries) == 1 for shape in shapes("otf-predicates", 64))
