-- data: syn 20000
-- options: --query w_18_15 --query v_12_9
-- HIFI Query 4 and section 4.2: W[18, 15] in slices of (12, 3), and the composition of U(12, 3) and V(6, 3), which
-- has 12 slices in 45 seconds.
CREATE QUERY w_18_15 AS SELECT count(*) AS n FROM Snort [RANGE '18 s' SLIDE '15 s'];
CREATE QUERY v_12_9 AS SELECT count(*) AS n FROM Snort [RANGE '12 s' SLIDE '9 s'];
