-- data: netflow 20000
-- options:
-- NFC V: random group-bys with random filters.
CREATE QUERY nfc_random_001 AS
SELECT SourcePort, ToS, InputInterface, OutputInterface, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourcePort, ToS, InputInterface, OutputInterface, DestAS;

CREATE QUERY nfc_random_002 AS
SELECT InputInterface, OutputInterface, NextHop, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE SourcePort >= 7560
GROUP BY InputInterface, OutputInterface, NextHop;

CREATE QUERY nfc_random_003 AS
SELECT SourceAddr, SourcePort, DestPort, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE Packets >= 4 OR Protocol <= 10
GROUP BY SourceAddr, SourcePort, DestPort, Protocol;

CREATE QUERY nfc_random_004 AS
SELECT SourceAddr, ToS, OutputInterface, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE InputInterface <= 5
GROUP BY SourceAddr, ToS, OutputInterface, DestAS;

CREATE QUERY nfc_random_005 AS
SELECT SourceAddr, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, Protocol;

CREATE QUERY nfc_random_006 AS
SELECT DestPort, InputInterface, OutputInterface, SourceAS, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE Packets >= 23
GROUP BY DestPort, InputInterface, OutputInterface, SourceAS, DestAS;

CREATE QUERY nfc_random_007 AS
SELECT SourceAddr, DestPort, Protocol, OutputInterface, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE Protocol <= 11
GROUP BY SourceAddr, DestPort, Protocol, OutputInterface;

CREATE QUERY nfc_random_008 AS
SELECT DestAddr, SourcePort, SourceAS, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE DestAS BETWEEN 27001 AND 56001
GROUP BY DestAddr, SourcePort, SourceAS, DestAS;

CREATE QUERY nfc_random_009 AS
SELECT Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE SourcePort >= 3240
GROUP BY Protocol;

CREATE QUERY nfc_random_010 AS
SELECT SourceAddr, NextHop, SourceAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, NextHop, SourceAS;

CREATE QUERY nfc_random_011 AS
SELECT DestAddr, Protocol, InputInterface, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
WHERE Packets >= 17
GROUP BY DestAddr, Protocol, InputInterface;

CREATE QUERY nfc_random_012 AS
SELECT DestPort, ToS, OutputInterface, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY DestPort, ToS, OutputInterface, DestAS;
