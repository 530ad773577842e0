-- data: trades 40000
-- options: --query q1
-- OTF 4.2: three predicates over one window; every combination of their outcomes may occur.
CREATE QUERY q1 AS SELECT sum(Vol) AS v FROM Trades [RANGE '60 s'] WHERE Vol > 1000;
CREATE QUERY q2 AS SELECT sum(Vol) AS v FROM Trades [RANGE '60 s'] WHERE Price > 50;
CREATE QUERY q3 AS SELECT sum(Vol) AS v FROM Trades [RANGE '60 s'] WHERE Price * Vol > 20000;
