"""Plans: what they answer, what they cost, and that the company of other queries changes no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.execution import run_plan
from headrace.planner.construction import make_plan
from headrace.planner.cost import FOR_EDGES, Constants
from headrace.planner.demand import Demand, demand, leaves_of, split_by_partial
from headrace.planner.plan import STREAM, Plan, route
from headrace.planner.statistics import BatchSample, draw
from headrace.sql import Script
from headrace.windows import Boundaries
from tests.planner.data import cost_of, demands_of, script_of, stream_data
from tests.planner.test_lattice import atoms, window_texts

CHEAP_TO_COMPUTE = Constants(node_ns=1.0, leaf_ns=1.0, ship_row_ns=1_000.0)
CHEAP_TO_SHIP = Constants(node_ns=1_000.0, leaf_ns=1_000.0, ship_row_ns=0.1, ship_byte_ns=0.0)

wheres = st.one_of(st.just(""), atoms.map("WHERE {}".format), st.builds("WHERE {} OR {}".format, atoms, atoms))
groups = st.sampled_from(["", "a", "b", "a, b", "b % 10", "a, b, c"])
aggregates = st.sampled_from(["count(*)", "sum(b)", "avg(d)", "count(*), max(c)", "count(*), count(DISTINCT c)"])


def text(select: str, window: str, where: str, group: str) -> str:
    return f"SELECT {select} FROM S {window} {where} {f'GROUP BY {group}' if group else ''}"


query_sets = st.lists(st.builds(text, aggregates, window_texts, wheres, groups), min_size=1, max_size=6)


def plan_for(script: Script, constants: Constants | None = None, rows: int = 300) -> Plan:
    return make_plan(demands_of(script), cost_of(script, stream_data(script, rows), constants))


def counted(sample: BatchSample, counts: list[int], asked: Demand, name: str) -> Counter[tuple[Any, ...]]:
    """count(*) per query, window and group, over rows that stand for `counts` rows each."""
    passing = sample.passing(asked.predicate)
    columns = [sample.evaluation.evaluate(tree).values.to_pylist() for tree in sorted(asked.groups, key=repr)]
    result: Counter[tuple[Any, ...]] = Counter()
    for place, (time_us, count) in enumerate(zip(sample.times_us.tolist(), counts, strict=True)):
        if passing[place]:
            for instance in asked.window.containing(time_us):
                result[(name, instance, *(column[place] for column in columns))] += count
    return result


def answered(plan: Plan, script: Script, rows: int, names: Container[str]) -> Counter[tuple[Any, ...]]:
    whole = draw(stream_data(script, rows), [named.query for named in script.queries], None, None)
    runs = run_plan(plan, whole)
    result: Counter[tuple[Any, ...]] = Counter()
    for name, asked in chosen(script, names):
        found = route(plan, asked)
        assert found is not None, "a query that was planned for has a route"
        run = runs[found[0].place]
        result += counted(run.sample, run.counts.tolist(), asked, name)
    return result


def direct(script: Script, rows: int, names: Container[str]) -> Counter[tuple[Any, ...]]:
    whole = draw(stream_data(script, rows), [named.query for named in script.queries], None, None)
    result: Counter[tuple[Any, ...]] = Counter()
    for name, asked in chosen(script, names):
        result += counted(whole, [1] * rows, asked, name)
    return result


def chosen(script: Script, names: Container[str]) -> Iterator[tuple[str, Demand]]:
    return ((name, asked) for name, asked in demands_of(script).items() if name in names)


def check_tree(plan: Plan) -> None:
    assert len({each.node for each in plan.nodes}) == len(plan.nodes), "no row is in two partials of one node"
    for place, each in enumerate(plan.nodes):
        assert STREAM <= each.parent < place
        assert each.parent == STREAM or plan.nodes[each.parent].node.covers(each.node)
        assert place in plan.shipped or list(plan.children(place)), "nothing is computed in vain"
    for answer in plan.answers:
        shipped = plan.nodes[answer.place].node
        assert shipped == answer.leaf.node or shipped.covers(answer.leaf.node)
        assert shipped.groups == answer.leaf.node.groups
    asked = {(ask.query, partial) for answer in plan.answers for ask in answer.leaf.asks for partial in ask.partials}
    assert asked == {(name, partial) for name, each in plan.demands.items() for partial in each.partials}


@settings(max_examples=60, deadline=None)
@given(query_sets, st.sampled_from([Constants(), CHEAP_TO_COMPUTE, CHEAP_TO_SHIP]))
def test_every_plan_answers_every_query(texts: list[str], constants: Constants) -> None:
    script = script_of(*texts)
    names = demands_of(script).keys()
    assert answered(plan_for(script, constants), script, 300, names) == direct(script, 300, names)


@settings(max_examples=60, deadline=None)
@given(query_sets, st.sampled_from([Constants(), CHEAP_TO_COMPUTE, CHEAP_TO_SHIP]))
def test_a_plan_is_a_tree_of_nodes_that_cover_each_other(texts: list[str], constants: Constants) -> None:
    check_tree(plan_for(script_of(*texts), constants))


@settings(max_examples=60, deadline=None)
@given(query_sets, st.sampled_from([Constants(), CHEAP_TO_COMPUTE, CHEAP_TO_SHIP]))
def test_sharing_never_costs_more_than_running_apart(texts: list[str], constants: Constants) -> None:
    plan = plan_for(script_of(*texts), constants)
    assert plan.cost_ns <= sum(plan.alone_ns.values()) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(query_sets)
def test_for_edges_every_node_comes_from_the_stream(texts: list[str]) -> None:
    plan = plan_for(script_of(*texts), FOR_EDGES)
    assert {each.parent for each in plan.nodes} == {STREAM}
    assert plan.shipped == set(range(len(plan.nodes)))


def test_equal_queries_make_equal_plans() -> None:
    texts = [f"SELECT count(*) FROM S [RANGE {r} SLIDE 7] WHERE b < {r}" for r in range(8, 20)]
    assert plan_for(script_of(*texts)) == plan_for(script_of(*texts))


def test_a_sketch_goes_its_own_way() -> None:
    """A sum may come from fine slices, but a merge of quantile sketches costs a thousand additions."""
    texts = (
        "SELECT sum(c) FROM S [RANGE '1 s' SLIDE '100 ms']",
        "SELECT sum(c), percentile_approx(d, 0.5) FROM S [RANGE 60]",
    )
    plan = plan_for(script_of(*texts), rows=4_000)
    sketched = [each.node for each in plan.nodes if "quantiles" in {partial.kind for partial in each.node.partials}]
    assert [node.boundaries for node in sketched] == [(Boundaries(60_000_000, (0,)),)]


def test_partials_of_one_leaf_may_part() -> None:
    (leaf,) = leaves_of(demands_of(script_of("SELECT sum(c), percentile_approx(d, 0.5) FROM S [RANGE 60]")))
    cheap, dear = split_by_partial(leaf)
    assert {partial.kind for partial in cheap.node.partials} == {"sum"}
    assert {partial.kind for partial in dear.node.partials} == {"quantiles"}
    assert (cheap.predicate, cheap.node.groups, cheap.node.boundaries) == (
        dear.predicate,
        dear.node.groups,
        dear.node.boundaries,
    )


def test_dear_shipping_fans_out_in_the_task_and_cheap_shipping_at_close() -> None:
    texts = [f"SELECT count(*) FROM S [RANGE 60] WHERE b < {b} AND c < {b}" for b in range(2, 100, 3)]
    in_task, at_close = (plan_for(script_of(*texts), each) for each in (CHEAP_TO_COMPUTE, CHEAP_TO_SHIP))
    assert sum(plan_rows(in_task)) < sum(plan_rows(at_close))


def plan_rows(plan: Plan) -> Iterator[float]:
    return (plan.nodes[place].rows for place in plan.shipped)


def test_a_young_query_is_answered_by_a_node_that_covers_it() -> None:
    script = script_of(
        "SELECT b, sum(c) FROM S [RANGE 20 SLIDE 10] GROUP BY b", "SELECT count(*) FROM S [RANGE 10] WHERE b < 50"
    )
    plan = plan_for(script)
    known = demand(script_of("SELECT b, sum(c) FROM S [RANGE 40 SLIDE 20] GROUP BY b").queries[0].query)
    other_group = demand(script_of("SELECT sum(c) FROM S [RANGE 40 SLIDE 20]").queries[0].query)
    finer = demand(script_of("SELECT b, sum(c) FROM S [RANGE 5] GROUP BY b").queries[0].query)
    other_rows = demand(script_of("SELECT count(*) FROM S [RANGE 10] WHERE b < 60").queries[0].query)
    assert route(plan, known) is not None
    assert route(plan, other_group) is None, "a coarser group-by would cross reducers"
    (crossed,) = route(plan, finer) or ()
    assert crossed.leaf.boundaries == plan.nodes[crossed.place].node.boundaries, "slices stay as they are"
    assert route(plan, other_rows) is None
