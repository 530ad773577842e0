-- data: packets 40000
-- options:
-- GS 6: AB, BC, BD, CD; the phantom is a node that no query asked for.
CREATE QUERY source_ip_dest_ip AS
SELECT tb, SourceIP, DestIP, count(*) AS packets
FROM Packets
GROUP BY Time/5 AS tb, SourceIP, DestIP;

CREATE QUERY dest_ip_source_port AS
SELECT tb, DestIP, SourcePort, count(*) AS packets
FROM Packets
GROUP BY Time/5 AS tb, DestIP, SourcePort;

CREATE QUERY dest_ip_dest_port AS
SELECT tb, DestIP, DestPort, count(*) AS packets
FROM Packets
GROUP BY Time/5 AS tb, DestIP, DestPort;

CREATE QUERY source_port_dest_port AS
SELECT tb, SourcePort, DestPort, count(*) AS packets
FROM Packets
GROUP BY Time/5 AS tb, SourcePort, DestPort;
