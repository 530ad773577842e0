-- data: trades 40000
-- options: --query indexed
-- Group-bys, joins, an average, a median and overlapping windows side by side.
CREATE QUERY per_symbol AS
  SELECT Symbol, sum(Vol) AS v, count(*) AS n FROM Trades [RANGE '60 s' SLIDE '20 s'] GROUP BY Symbol;
CREATE QUERY large AS
  SELECT Symbol, avg(Price) AS p FROM Trades [RANGE '90 s' SLIDE '60 s'] WHERE Vol > 500 GROUP BY Symbol;
CREATE QUERY middle AS SELECT percentile_approx(Price, 0.5) AS p, sum(Vol) AS v FROM Trades [RANGE '60 s'];
CREATE QUERY indexed AS
  SELECT T.Symbol, avg(T.Price) AS p FROM Trades T [RANGE '60 s' SLIDE '20 s'] JOIN Index X ON T.Symbol = X.Symbol
  WHERE X.R1000 GROUP BY T.Symbol;
CREATE QUERY moved AS
  SELECT count(*) AS n FROM Trades T [RANGE '30 s' SLIDE '10 s'] JOIN Close C ON T.Symbol = C.Symbol
  WHERE abs(T.Price - C.CP) / C.CP > 0.05;
CREATE QUERY total AS SELECT sum(Vol) AS v FROM Trades [RANGE '30 s' SLIDE '10 s'];
