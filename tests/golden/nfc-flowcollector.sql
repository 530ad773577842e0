-- data: netflow 20000
-- options:
-- NFC VI: the aggregations of a flow collector.
CREATE QUERY SourceNode AS
SELECT SourceAddr, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr;

CREATE QUERY DestNode AS
SELECT DestAddr, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY DestAddr;

CREATE QUERY HostMatrix AS
SELECT SourceAddr, DestAddr, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, DestAddr;

CREATE QUERY SourcePort AS
SELECT SourcePort, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourcePort;

CREATE QUERY DestPort AS
SELECT DestPort, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY DestPort;

CREATE QUERY Protocol AS
SELECT Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY Protocol;

CREATE QUERY DetailSourceNode AS
SELECT SourceAddr, SourcePort, DestPort, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, SourcePort, DestPort, Protocol;

CREATE QUERY DetailDestNode AS
SELECT DestAddr, SourcePort, DestPort, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY DestAddr, SourcePort, DestPort, Protocol;

CREATE QUERY DetailHostMatrix AS
SELECT SourceAddr, DestAddr, SourcePort, DestPort, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, DestAddr, SourcePort, DestPort, Protocol;

CREATE QUERY CallRecord AS
SELECT SourceAddr, DestAddr, SourcePort, DestPort, Protocol, ToS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, DestAddr, SourcePort, DestPort, Protocol, ToS;

CREATE QUERY DetailInterface AS
SELECT SourceAddr, DestAddr, InputInterface, OutputInterface, NextHop, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAddr, DestAddr, InputInterface, OutputInterface, NextHop;

CREATE QUERY ASMatrix AS
SELECT SourceAS, DestAS, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAS, DestAS;

CREATE QUERY NetMatrix AS
SELECT ip_prefix(SourceAddr, 24) AS SourceNet, ip_prefix(DestAddr, 24) AS DestNet, InputInterface, OutputInterface, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY ip_prefix(SourceAddr, 24), ip_prefix(DestAddr, 24), InputInterface, OutputInterface;

CREATE QUERY DetailASMatrix AS
SELECT SourceAS, DestAS, InputInterface, OutputInterface, SourcePort, DestPort, Protocol, sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows
FROM Flows [RANGE '300 s' SLIDE '300 s']
GROUP BY SourceAS, DestAS, InputInterface, OutputInterface, SourcePort, DestPort, Protocol;
