"""The commands: name, help, options, and the modules that measure and print."""

from __future__ import annotations

import json
from pathlib import Path

import rich_click as click

from benchmarks.data import OTF_WORKLOADS, WORKLOADS
from benchmarks.runner import Benchmark, draw_figure, groups_option, option, picture_option

SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
THOUSANDS = click.IntRange(1_000)
ON_SPARK = [name for name, workload in WORKLOADS.items() if workload.on_spark]

BENCHMARKS = (
    Benchmark(
        "planner",
        """\
Compare plans with the best of all trees and with no sharing, and time planning.

\b
mean_ratio, worst_ratio  cost of the tree found / least cost of all trees of unions
drawn_...                the same with few unions drawn at random, as among many leaves
above_unshared           plans predicted to cost more than their queries run apart
plan_N_s                 seconds to plan N queries of otf-low
gain_N                   predicted cost of those queries run apart / of the plan
add_one_ms, drop_one_ms  the longest of 12 changes of a plan by one query
""",
        (
            option("--instances", 200, "Number of small instances to solve exhaustively."),
            option("--unshared-instances", 1_000, "Number of instances to compare with queries run apart."),
            option(
                "--queries",
                (256, 1_000),
                "Number of low-sharing queries to plan; may be given several times. One is added to the first number.",
            ),
            option("--rows", 100_000, "Rows of the batch to plan for."),
        ),
        {"planner": "benchmarks.planner"},
    ),
    Benchmark(
        "counts",
        """\
Count the aggregate operations of the plans of OTF 6.2-6.4 and of our plan, over generated trades.

A partial operation puts a row into a partial, a final one a partial into another or into a window. No engine runs:
operations are counted, and the paper's counts over its own trades are printed beside them.
""",
        (
            option(
                "--workload",
                OTF_WORKLOADS,
                "Workload; may be given several times.",
                click.Choice(OTF_WORKLOADS),
                "workloads",
            ),
            option("--queries", 256, "Number of queries."),
            option("--rows", 1_138_636, "Number of trades to generate. Default: an hour."),
        ),
        {"counts": "benchmarks.counts"},
    ),
    Benchmark(
        "nfc",
        """\
Count the rows hashed by each query apart and by the shared tree, over generated flows [NFC VI].

FlowCollector's queries over periods of 1 to 10 minutes, then random sets of several sizes over 5 minutes. The tree is
planned for the fewest rows hashed, from a sample, and then run over all rows. `best` is the factor that no tree can
exceed on these flows.
""",
        (
            option("--rows", 3_000_000, "Number of flows to generate."),
            option("--rate", 5_000.0, "Flows a second at the router."),
            option("--queries", (10, 25, 50, 100, 200), "Size of a random set of queries; may be given several times."),
        ),
        {"nfc": "benchmarks.nfc"},
        figure="the factors",
    ),
    Benchmark(
        "kernel",
        """\
Compare the kernel in this process with no sharing, DuckDB and Polars, over generated data in memory.

The results of the sampled queries are first compared with those of DuckDB and Polars, row by row; a difference is an
error.

\b
Workloads:
  windows, predicates,  sums over trades, joined with two tables
  regular, low          [OTF 6.2-6.4]
  grouped               16 group-bys x 8 predicates over NetFlow records
  syn                   SYN packets per source, 32 windows [HIFI 6.1]

\b
checked_rows          rows of windows compared with DuckDB and with Polars
plan_s, kernel_s      seconds to plan, and to answer all queries by that plan
rows_per_s            rows / kernel_s
rows_per_s_one_query  the same of a query alone, the median of a few
level1_rows           rows that leave level 1, of all batches
level1_share          level1_rows / rows
peak_mb               growth of resident memory at its peak, while answering
lattice_gain          time with every leaf from the stream / by the plan,
                      over apart_rows rows
apart_s               the first of these two times
duckdb_s, polars_s    all queries one after the other, scaled from
                      peer_sampled queries

\b
Example:
  python -m benchmarks kernel --workload grouped --queries 16 --rows 100000
  python -m benchmarks kernel --workload syn
""",
        (
            option("--workload", "low", "Workload.", click.Choice(list(WORKLOADS))),
            option("--queries", None, "Number of queries. Default: 256; grouped 128, syn 32."),
            option("--rows", None, "Number of rows to generate. Default: 5000000; grouped 1000000, syn 523761."),
            option("--sample", 16, "Number of queries that DuckDB and Polars answer."),
        ),
        {"kernel": "benchmarks.kernel"},
    ),
    Benchmark(
        "otf",
        """\
Compare all queries shared on Spark with each by itself on Spark, DuckDB and Polars, from Parquet files to results.

The answers of the sampled queries are first compared, row by row; a difference is an error. Everything is warm. The
shared run starts from an empty state directory, reads tables and files, and ends when the last result file has its
name: the median of three runs. Needs Java.

\b
Workloads:
  windows, predicates,  sums over trades, joined with two tables
  regular, low          [OTF 6.2-6.4]
  grouped               16 group-bys x 8 predicates over NetFlow records

\b
checked_rows          rows of windows compared with Spark, DuckDB and Polars
shared_s, plan_s      seconds of the shared run without planning, and to plan
unshared_s            all queries one after the other as Spark aggregations,
                      scaled from unshared_sampled queries
single_s              one of them, the median
speedup               unshared_s / shared_s
price_of_one          shared_s / single_s
lattice_gain          the job with every leaf from the stream / by the plan
level1_rows           rows that leave level 1; level1_share is of all rows
duckdb_s, polars_s    all queries in these, scaled from the same sample;
                      duckdb_gain and polars_gain are these / shared_s
stages                where the time of the shared run goes, in seconds:
                      open (state, tables), begin (list files, journal),
                      plan, run (the Spark job), commit, finish (publish
                      results, clean up)

\b
Example:
  python -m benchmarks otf --workload low --queries 16 --rows 200000 --sample 2
  python -m benchmarks otf --workload grouped --json grouped.json
""",
        (
            option("--workload", "low", "Workload.", click.Choice(ON_SPARK)),
            option("--queries", None, "Number of queries. Default: 256; grouped 128."),
            option("--rows", None, "Number of rows to generate. Default: 5000000; grouped 1000000."),
            option("--sample", 16, "Number of queries that Spark, DuckDB and Polars answer one by one."),
        ),
        {"otf": "benchmarks.otf"},
    ),
    Benchmark(
        "stream",
        """\
Measure the engine on Spark in steady state: one file of trades after the other, a step for each.

Steps follow each other without waiting, and files are written between them, off the clock. Figures are of otf-regular
queries; those that end in `_low` are of otf-low queries over a quarter of the steps. Needs Java.

\b
rows_per_s             rows / time of the steps, after the first 10
batch_ms_p50, _p95     milliseconds of a step
add_batches            steps until a query added meanwhile is in; 1 is best
rss_growth             resident memory of Python, the JVM and its workers in
                       steps 181-200 / in steps 31-50, minus 1; with other
                       numbers of steps in rss_steps, the same parts of them
store_files_max        most slice files that a reducer had at a time
rows_per_s_by_queries  by number of otf-low queries, in runs of 15 steps
                       after 5 to warm up
layouts_ms_p50         milliseconds of a step of 64 queries with 64
                       different group-bys, over flows
stages_ms              where the time of a step goes, on average

\b
Example:
  python -m benchmarks stream --queries 16 --steps 20 --step-rows 20000 --by-queries 1
""",
        (
            option("--queries", 256, "Number of queries; a square number, as they pair windows and predicates."),
            option("--steps", 200, "Steps of the main run; otf-low runs a quarter of them.", click.IntRange(4)),
            option("--step-rows", 100_000, "Rows of each step."),
            option("--rate", 5_000.0, "Rows in a second of event time, not of the clock."),
            option(
                "--by-queries",
                (1, 16, 256, 1_000),
                "Number of otf-low queries of a short run; may be given several times.",
            ),
        ),
        {"stream": "benchmarks.stream"},
    ),
    Benchmark(
        "state_store",
        """\
Measure a step on Spark's own state store that aggregates nothing, against whole steps of the engine. Needs Java.

\b
two_stages_ms           milliseconds of an empty job with one shuffle
state_store_ms          of a batch that keeps bytes with transformWithState
state_store_reading_ms  the same, and all that is kept is read
state_store_logs_ms     of a batch, what Spark's logs and planning take
headrace_ms             of a step of the engine with 256 otf-regular queries
over_headrace           state_store_ms / headrace_ms
reading_over_headrace   state_store_reading_ms / headrace_ms
""",
        (option("--steps", 40, "Steps of each, after 10 to warm up; 5 for the engine."),),
        {"state_store": "benchmarks.state_store"},
    ),
    Benchmark(
        "cluster",
        """\
Measure what a step costs on a cluster: its objects and round trips, the driver, a slow store. Needs Java, versitygw.

Steps of 256 otf-low queries in steady state, on local Spark. Without other options the figures have these bounds:

\b
objects_per_step_256_r4  at most 16: objects that a step with 4 reducers writes
sequential_round_trips   at most 8: how much longer a step takes for each second
                         that every request to the store takes longer
driver_ms_256_r4         at most 60: of a step, what is not the job of Spark
commit_bytes_growth      at most 4: bytes of a commit of 64 reducers / of 4
step_s_store_50ms        at most 0.8: seconds of a step if a request takes 50 ms
local_slowdown           at most 1.1: time of a step on a disk / of an empty job
                         of two stages, over what that was before the state was
                         laid out for stores
cluster_differences      0: result rows of two workers in network namespaces
                         that local mode does not have (needs root)
row_us, window_ms        processor time of a row in partial aggregation, and of
                         an answered window in final aggregation
""",
        (
            option("--steps", 30, "Steps of each run, after 10 to warm up."),
            option("--step-rows", 100_000, "Rows of a step."),
            option("--queries", 256, "Number of queries."),
        ),
        {"cluster": "benchmarks.cluster"},
    ),
    Benchmark(
        "holistic",
        """\
Measure sketches at two levels over packets, as in "Holistic UDAFs at streaming speeds", and shared on Spark.

Packets are uniform or skewed in their groups, addresses and lengths. Times are ns per packet at each level, and as a
multiple of the null UDAF, a plain sum in the same kind of loop in the same run; the best of five. What the paper found
is printed beside what was found here, with the reason where that differs.

\b
quantiles           medians of lengths: low levels lite, medium and heavy with
                    three scratchpads below Greenwald-Khanna summaries; KLL
                    and bucket sketches by batches [UDAF table 3, figure 4]
hitters             bytes by address: four low levels, below them direct and
                    adaptive (64, 128, 256) sketches; counters by batches
                    [UDAF figures 5 to 9]
accuracy            of the exact top five of groups: correct, off by one place
                    or by more, missed; and bytes per group and per packet
                    [UDAF figures 10 and 11]
merged              rank errors after 1,000 merges, and Greenwald-Khanna
                    merged against cut to its size without merges
holistic_speedup    queries one by one as Spark aggregations of the same
                    declared error, scaled from unshared_sampled of them /
                    all in one bounded shared run
holistic_over_sums  that run / one of the same windows and predicates with
                    sums only
checked_rows        windows, of ours and of Spark's, compared with the exact
                    answer before: within the declared error, or an error

\b
Example:
  python -m benchmarks holistic --part packets --rows 100000 --groups 100,1000
  python -m benchmarks holistic --part spark --trades 300000 --queries 12 --sample 4
""",
        (
            option("--rows", 1_000_000, "Number of packets of each kind."),
            groups_option("100,1000,10000", "Numbers of groups, separated by commas."),
            option("--trades", 5_000_000, "Number of trades on Spark."),
            option("--queries", 64, "Number of queries on Spark.", click.IntRange(4)),
            option(
                "--sample",
                8,
                "Number of queries that Spark answers one by one; at least one of each function.",
                click.IntRange(4),
            ),
        ),
        {"packets": "benchmarks.holistic.packets", "spark": "benchmarks.holistic.spark"},
        figure="the paper's figures, of the packets,",
    ),
    Benchmark(
        "phantoms",
        """\
Measure collision rates, divisions of memory and choices of phantoms, as in "Multiple aggregations over data streams".

Packets have four attributes and 2,837 groups; they are drawn at random (uniform) or come in interleaved flows of 32
(clustered). Rates and costs are counted by the edge's own tables, direct mapped, once they are full: 1 for a probe, 50
for an entry that leaves a query. What the paper found is printed beside what was found here, with the reason where that
differs.

\b
collision_within_5_percent    points of figure 5 as near to the model
sl_over_es, sr_..., pl_...    cost of a closed form / of the best
                              division, a mean over trees [GS table 2]
gc_within_20_percent_of_epes  choices of GC with SL as near to the best
                              configuration, by the model
gc_above_gs                   choices where GS is cheaper, by the model
gc_measured_over_epes_...     measured cost of GC with SL / of what is
                              best by the model, the largest
measured_gain_...             measured cost without phantoms / with GC's
gain_limit_...                what no gain exceeds: a record is a probe
gc_ms, choice_ms              processor time of GC, of all of `choose`

\b
Example:
  python -m benchmarks phantoms --rows 100000 --units 40000 --hashes 4
""",
        (
            option("--rows", 1_000_000, "Number of packets of each kind.", THOUSANDS),
            option(
                "--units",
                (20_000, 40_000, 60_000, 80_000, 100_000),
                "Memory for all tables, in units of 4 bytes; may be given several times.",
                THOUSANDS,
            ),
            option("--hashes", 20, "Hash functions to average collision rates over; a quarter of them for costs."),
        ),
        {"phantoms": "benchmarks.phantoms.benchmark"},
        figure="the paper's figures",
    ),
    Benchmark(
        "edge",
        """\
Measure fixed-memory tables on one core: records per second, and the smallest tables that drop none.

Packets are uniform in their groups, or come in flows. Tables of AB, BC, BD and CD are fed by a phantom of ABCD. Drops
are simulated: records of a trace arrive at a fixed rate in a ring, the real tables count what happens to each, and how
long that takes is measured before. What the paper on holistic UDAFs found is printed beside it. All times are processor
time, so that other programs slow them down little; load_average is their number at the start.

\b
records_per_s         of the tables at a collision rate of 10%, second chance;
                      the slower of both kinds of packets
records_per_s_full    of all of level 1, from rows in memory to the tables of a
                      frame: 4 group-bys, each with each of 4 predicates and
                      3 windows; records_per_s_four: one query for each
speeds, full          of each kind, replacement, collision rate; of each kind
                      and number of queries
costs                 ns of a row that finds its group, of one that evicts, of
                      an entry that is flushed or only looked at, and of a
                      partial until it is in a frame
smallest              the smallest table without a drop, and the losses with
                      half and a quarter of it [UDAF table 1]
losses                with an eager and with a lazy flush, several queries
                      [UDAF table 2]

\b
Example:
  python -m benchmarks edge --rows 100000 --rate 0.1 --groups 2000 --load 0.4
""",
        (
            option("--rows", 1_000_000, "Number of packets of each kind.", THOUSANDS),
            option(
                "--rate",
                (0.01, 0.02, 0.05, 0.1, 0.2, 0.4),
                "Collision rate of the phantom that its size is chosen for; may be given several times.",
                SHARE,
                "rates",
            ),
            groups_option("2000,5000,10000,20000,40000", "Numbers of groups in the traces, separated by commas."),
            option(
                "--load",
                (0.15, 0.3),
                "Share of the time that records take if all find their group; may be given several times.",
                SHARE,
                "loads",
            ),
            option("--trace-rows", 1_000_000, "Records of a trace.", THOUSANDS),
            option("--ring", 65_536, "Records that can wait in the ring.", THOUSANDS),
        ),
        {"edge": "benchmarks.edge.benchmark"},
        figure="the figures",
    ),
    Benchmark(
        "hifi",
        """\
Compare plans for queries over an edge and a root, as in "Shared hierarchical aggregation" [HIFI 5, 6].

Sets of 2 to 32 counts of SYN packets, of all sources and by source, with one slide and random ranges. Edges send rows
(none), partials of slices (partial) or windows (full), for all queries together (shared) or for each (unshared). All
plans are run by the kernel; figures are means over the sets, for a day and one edge.

\b
tuples, bytes           sent to the root, in the interchange format
predicted               tuples that headrace explain --topology would
                        expect, from a sample
operations              rows put into partials, and partials into windows
seconds                 from rows to results, of the checked sets
checked_sets            sets in which all plans were run to the results,
                        over three edges, and these were equal
growth_partial_grouped  tuples of 32 grouped queries / of 2, shared partial
partial_wins_grouped    whether shared partial sends the fewest tuples for
                        grouped queries, of all plans and sizes;
                        partial_wins_grouped_bytes the fewest bytes

\b
Example:
  python -m benchmarks hifi --rows 50000 --sets 3
""",
        (
            option("--rows", 523_761, "Number of packets in a day."),
            option("--sets", 50, "Number of random query sets of each size."),
            option(
                "--checked", 1, "Sets of each size for which the results of all plans are compared.", click.IntRange(0)
            ),
        ),
        {"hifi": "benchmarks.hifi.benchmark"},
        figure="figures 7 and 8",
    ),
)


@click.group()
def bench() -> None:
    """Measure Headrace against the papers and other engines."""


@bench.command(params=[picture_option("--out", "Draw into this file (SVG, PNG or PDF).", is_required=True)])
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def plot(file: Path, out: Path) -> None:
    """Draw the figures of a FILE that a benchmark wrote with --json."""
    draw_figure(json.loads(file.read_text(encoding="utf-8")), out)


for benchmark in BENCHMARKS:
    bench.add_command(benchmark.command)
