-- Who tries many ports of few hosts, over short and over long windows.
CREATE QUERY ports_30s AS
  SELECT source, count(DISTINCT port) AS ports FROM Attempts [RANGE '30 s' SLIDE '10 s']
  GROUP BY source HAVING count(DISTINCT port) >= 15;
CREATE QUERY ports_1m AS
  SELECT source, count(DISTINCT port) AS ports FROM Attempts [RANGE '1 min' SLIDE '20 s']
  GROUP BY source HAVING count(DISTINCT port) >= 30;
CREATE QUERY ports_3m AS
  SELECT source, count(DISTINCT port) AS ports, count(*) AS attempts FROM Attempts [RANGE '3 min' SLIDE '1 min']
  GROUP BY source HAVING count(DISTINCT port) >= 60;

-- Who tries many hosts. A slow sweep is below the threshold in each network, and above it in all of them.
CREATE QUERY hosts_1m AS
  SELECT source, count(DISTINCT host) AS hosts FROM Attempts [RANGE '1 min' SLIDE '20 s']
  GROUP BY source HAVING count(DISTINCT host) >= 25;
CREATE QUERY hosts_90s AS
  SELECT source, count(DISTINCT host) AS hosts FROM Attempts [RANGE '90 s' SLIDE '20 s']
  GROUP BY source HAVING count(DISTINCT host) >= 40;
CREATE QUERY hosts_3m AS
  SELECT source, count(DISTINCT host) AS hosts, min(t) AS since FROM Attempts [RANGE '3 min' SLIDE '1 min']
  GROUP BY source HAVING count(DISTINCT host) >= 60;
CREATE QUERY ssh_3m AS
  SELECT source, count(DISTINCT host) AS hosts FROM Attempts [RANGE '3 min' SLIDE '1 min'] WHERE port = 22
  GROUP BY source HAVING count(DISTINCT host) >= 60;

-- Who knocks often, and who is not let in.
CREATE QUERY loud_30s AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '30 s' SLIDE '10 s']
  GROUP BY source HAVING count(*) >= 60;
CREATE QUERY loud_50s AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '50 s' SLIDE '20 s']
  GROUP BY source HAVING count(*) >= 90;
CREATE QUERY loud_3m AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '3 min' SLIDE '1 min']
  GROUP BY source ORDER BY attempts DESC LIMIT 3;
CREATE QUERY unanswered_1m AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '1 min' SLIDE '20 s'] WHERE NOT answered
  GROUP BY source HAVING count(*) >= 20;
CREATE QUERY unanswered_90s AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '90 s' SLIDE '30 s'] WHERE NOT answered
  GROUP BY source HAVING count(*) >= 30;
CREATE QUERY remote_desktop_1m AS
  SELECT source, count(*) AS attempts FROM Attempts [RANGE '1 min' SLIDE '20 s'] WHERE port = 3389 AND NOT answered
  GROUP BY source HAVING count(*) >= 10;

-- Where it comes from, and how much there is at all.
CREATE QUERY networks_1m AS
  SELECT ip_prefix(source, 24) AS network, count(*) AS attempts FROM Attempts [RANGE '1 min' SLIDE '20 s']
  GROUP BY ip_prefix(source, 24) ORDER BY attempts DESC LIMIT 3;
CREATE QUERY low_ports_1m AS
  SELECT count(*) AS attempts, approx_count_distinct(source) AS sources FROM Attempts [RANGE '1 min' SLIDE '10 s']
  WHERE port < 1024;
CREATE QUERY all_1m AS
  SELECT count(*) AS attempts, approx_count_distinct(source) AS sources FROM Attempts [RANGE '1 min' SLIDE '10 s'];
