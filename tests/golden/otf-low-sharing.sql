-- data: trades 40000
-- options: --query otf_low_002
-- OTF 6.4.2: no two queries with the same window or predicate.
CREATE QUERY otf_low_001 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '691 s' SLIDE '540 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = TRUE AND T.Vol * T.Price > 272;

CREATE QUERY otf_low_002 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '661 s' SLIDE '315 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND T.Vol * T.Price > 890;

CREATE QUERY otf_low_003 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '845 s' SLIDE '477 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND T.Vol < 4360;

CREATE QUERY otf_low_004 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '790 s' SLIDE '561 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND T.Vol > 75;

CREATE QUERY otf_low_005 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '873 s' SLIDE '519 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = FALSE AND abs(T.Price - C.CP) / C.CP < 0.023;

CREATE QUERY otf_low_006 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '820 s' SLIDE '350 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND abs(T.Price - C.CP) / C.CP < 0.00568;

CREATE QUERY otf_low_007 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '869 s' SLIDE '326 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND abs(T.Price - C.CP) / C.CP < 0.0228;

CREATE QUERY otf_low_008 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '722 s' SLIDE '520 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND T.Vol * T.Price > 7900;

CREATE QUERY otf_low_009 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '673 s' SLIDE '318 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND T.Vol * T.Price > 64400;

CREATE QUERY otf_low_010 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '633 s' SLIDE '393 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = TRUE AND abs(T.Price - C.CP) / C.CP > 0.0000497;

CREATE QUERY otf_low_011 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '654 s' SLIDE '462 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND abs(T.Price - C.CP) / C.CP < 0.436;

CREATE QUERY otf_low_012 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '659 s' SLIDE '556 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = FALSE AND abs(T.Price - C.CP) / C.CP < 0.277;

CREATE QUERY otf_low_013 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '827 s' SLIDE '440 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = TRUE AND T.Vol > 85;

CREATE QUERY otf_low_014 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '627 s' SLIDE '571 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND abs(T.Price - C.CP) / C.CP > 0.00175;

CREATE QUERY otf_low_015 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '627 s' SLIDE '474 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = FALSE AND abs(T.Price - C.CP) / C.CP < 0.0452;

CREATE QUERY otf_low_016 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '634 s' SLIDE '484 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = TRUE AND T.Vol < 81000;

CREATE QUERY otf_low_017 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '786 s' SLIDE '503 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = TRUE AND T.Vol * T.Price < 7080;

CREATE QUERY otf_low_018 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '622 s' SLIDE '484 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND T.Vol < 8680;

CREATE QUERY otf_low_019 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '730 s' SLIDE '510 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND T.Vol * T.Price > 114;

CREATE QUERY otf_low_020 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '813 s' SLIDE '372 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R1000 = FALSE AND T.Vol * T.Price < 1320000;

CREATE QUERY otf_low_021 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '838 s' SLIDE '427 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND abs(T.Price - C.CP) / C.CP > 0.00445;

CREATE QUERY otf_low_022 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '894 s' SLIDE '491 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND T.Vol < 714;

CREATE QUERY otf_low_023 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '724 s' SLIDE '418 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R3000 = TRUE AND T.Vol < 28700;

CREATE QUERY otf_low_024 AS
SELECT sum(T.Price * T.Vol) AS value
FROM Trades T [RANGE '757 s' SLIDE '343 s'], Close C, Index X
WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
  AND X.R2000 = TRUE AND T.Vol < 829;
